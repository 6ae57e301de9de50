"""Who trains: the process, the anchor optimizer, the training thread, and the loaders that feed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
import polars as pl

from slowstep.analyses.steps.cell_code import without_shell
from slowstep.analyses.steps.input_code import NONE_RECORDED, InputCode, find_input_code
from slowstep.analyses.steps.joined_batches import NEVER
from slowstep.analyses.steps.phases import Elsewhere, Phase, TrainingInTurn, elsewhere, find_models, find_phases, longest
from slowstep.analyses.steps.prompts import CellRun, find_run, within
from slowstep.analyses.steps.training_passes import GAVE_BATCH, MOST_FOR_A_BATCH, TrainingPasses, find_training_passes
from slowstep.analyses.steps.untrained import describe_untrained
from slowstep.errors import NothingRecorded
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Frame, Loops, ProcessFacts, Timeline

LEADING = "leading dimension of the batch (assumed)"
# Backward passes for a batch, on average: from so many on there are several, as of a pair of networks.
SEVERAL = 1.5
# docs/definitions.md, "boundary": of so many updates a request for input must follow, for it to be the boundary of steps.
BOUNDARY_SHARE = 0.95
# Trainings in turn that are told one by one.
MOST_IN_TURN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer:
    """One rank's training thread: its updates (outermost calls of the anchor optimizer) and its requests for input."""

    process: int
    thread: int
    optimizer: int
    facts: ProcessFacts
    update_start_ns: Ints
    update_end_ns: Ints
    waits: pl.DataFrame  # the training thread's, of the training's passes over its loaders
    other_waits: pl.DataFrame  # the training thread's, of other passes (validation), of whichever loader
    starts: pl.DataFrame  # of the training's passes
    other_starts: pl.DataFrame
    ends: pl.DataFrame  # of the workers of the training's iterators, and of those of which it is not known whose they are
    other_ends: pl.DataFrame
    spans: pl.DataFrame
    all_updates: pl.DataFrame
    collections: pl.DataFrame  # of garbage, on the training thread
    input_code: InputCode = NONE_RECORDED  # what makes what the training's loaders read
    other_cells: int = 0  # updates of a session that ran before or after a prompt: between two of them nobody trained
    elsewhere: Elsewhere | None = None  # the trainings of this thread before and after this one, each with an optimizer of its own
    models: int = 1  # that its updates change, one after the other or in turns: too many, or with too few steps each, to be distinguished
    samples_from: str = LEADING  # whence the number of samples of each of `waits` is known
    takes_turns: bool = True  # every optimizer updates once in each step, in the same order
    joins_batches: bool = False  # what a step trains on is made of several batches that a loader gave for it
    steps_per_batch: float = 1.0  # from one batch to the next of the loader that is read most seldom of those that feed the training
    is_fed: bool = field(init=False)  # every step has its own batches of a loader; else the loop makes its input itself, or a part of it

    def __post_init__(self) -> None:
        # After the last update there may be no request any more: it says nothing about the others.
        asked = self.next_request_ns()[:-1] < NEVER
        if len(self.update_end_ns) == 1:
            asked = self.waits["start_ns"].to_numpy()[:1] < self.update_start_ns
        object.__setattr__(self, "is_fed", bool(len(asked)) and bool(asked.mean() >= BOUNDARY_SHARE))

    def next_request_ns(self) -> Ints:
        """For each update, the first request for input between its end and the next update; the largest number where there is none."""
        requests, ends = self.waits["start_ns"].to_numpy(), self.update_end_ns
        following = np.append(requests, NEVER)[np.searchsorted(requests, ends)]
        limit = np.append(self.update_start_ns[1:], NEVER - 1)
        return np.where(following <= limit, following, NEVER)

    @property
    def begins_passes(self) -> bool:
        """Whether most steps begin a pass over a loader."""
        return 2 * self.starts.height >= len(self.update_end_ns)

    @property
    def by_hand(self) -> bool:
        """Whether the script has no optimizer: its updates are ends of backward passes, and it makes them after those."""
        return self.optimizer in self.facts.by_hand

    @property
    def body_end_ns(self) -> Ints:
        """Where bodies of steps end: with the anchor optimizer's updates, with all where optimizers do not take turns."""
        return self.update_end_ns if self.takes_turns else np.asarray(self.outer_updates["end_ns"].to_numpy())

    @property
    def has_optimizers(self) -> bool:
        """Whether updates are calls of optimizers; else calls of the framework make them."""
        return self.facts.has_optimizers

    @property
    def is_asynchronous(self) -> bool:
        """Whether what calls the framework goes on while it works: what the host does meanwhile is no measure of the step."""
        return bool(self.facts.notes["facts"].get("asynchronous"))

    @property
    def steps_per_epoch(self) -> int | None:
        """After how many batches the framework's own loop ends an epoch though its data go on, or what divides all such; None of others."""
        asked: int | None = self.facts.notes["facts"].get("steps_per_epoch")
        return asked

    @property
    def updates_per_step(self) -> float:
        """How often a call of what trains changes the parameters, on average: more than once where a framework makes several at once."""
        mean = self.all_updates.filter(pl.col("optimizer") == self.optimizer)["updates"].mean()
        return float(mean) if isinstance(mean, float) else 1.0

    @property
    def asked_of_others_ns(self) -> tuple[Ints, Ints]:
        """Begins and ends of all requests to loaders that do not feed the training, and of their starts, in no order."""
        waits, starts = self.other_waits, self.other_starts
        begins, ends = (np.concatenate((waits[edge].to_numpy(), starts[edge].to_numpy())) for edge in ("start_ns", "end_ns"))
        return begins, ends

    @property
    def backwards(self) -> pl.DataFrame:
        """The backward passes, in order."""
        return self.spans.filter(pl.col("kind") == "backward")

    @property
    def backwards_per_step(self) -> float:
        """Backward passes for each of its updates, on average; 0.0 where none was recorded."""
        return self.backwards.height / max(len(self.update_end_ns), 1)

    @property
    def outer_updates(self) -> pl.DataFrame:
        """Those of all optimizers, without calls inside of another's."""
        return _outermost(self.all_updates)

    @property
    def way_to_update(self) -> tuple[Frame, ...]:
        """The frames that lead to the anchor optimizer's call, root first; only the innermost of the user's where no more is known."""
        return self.way_to(self.optimizer)

    def way_to(self, optimizer: int) -> tuple[Frame, ...]:
        """The same of any optimizer's call."""
        frame = self.facts.training_frames.get(optimizer)
        return without_shell(self.facts.training_paths.get(optimizer) or ((frame,) if frame else ()))

    @property
    def loops_beside(self) -> Loops:
        """The loops of the functions on that way that do not hold the call."""
        return self.facts.inner_loops.get(self.optimizer, {})

    @property
    def loops_around(self) -> Loops | None:
        """The innermost loop that holds the call, of each of those functions that has one; None where that was not recorded."""
        return self.facts.loops_around.get(self.optimizer)

    @property
    def training_forwards(self) -> pl.DataFrame:
        """The forwards with gradients; all where that was not recorded."""
        return self.spans.filter(pl.col("kind") == "forward", pl.col("gradients").fill_null(True))

    @property
    def way_to_forward(self) -> tuple[Frame, ...]:
        """The frames that lead to the forward, as those to the update."""
        frame = self.facts.forward_frame
        return without_shell(self.facts.forward_path or ((frame,) if frame else ()))


class _Loading(TypedDict):
    """What was recorded of loaders, that of the training's input apart from that of others: fields of Trainer."""

    waits: pl.DataFrame
    other_waits: pl.DataFrame
    starts: pl.DataFrame
    other_starts: pl.DataFrame
    ends: pl.DataFrame
    other_ends: pl.DataFrame


def training_processes(timeline: Timeline) -> list[int]:
    """Processes that called an optimizer, in the order in which they first did."""
    first = timeline.table("updates").group_by("process").agg(pl.col("start_ns").min())
    return first.sort("start_ns")["process"].to_list()


def other_training_processes(timeline: Timeline, process: int | None) -> set[int]:
    """The processes of other trainings than that of `process`, with their workers."""
    others = set(training_processes(timeline)) - {process}
    pids = [timeline.processes[other].pid for other in others]
    workers = timeline.table("processes").filter(pl.col("role") == "worker", pl.col("parent_pid").is_in(pids))
    return others | set(workers["process"].to_list())


def find_trainer(timeline: Timeline, process: int | None = None) -> Trainer:
    """Who trains in a process; in that with most updates where none is named. Raises NothingRecorded where none called an optimizer."""
    updates = timeline.table("updates")
    if process is not None:
        updates = updates.filter(pl.col("process") == process)
    if updates.is_empty():
        raise NothingRecorded(describe_untrained(timeline))
    process, thread, phases = _busiest(timeline, updates)
    phase, ways = longest(phases), _ways(timeline, process)

    def mine(name: str) -> pl.DataFrame:
        table = timeline.table(name).filter(pl.col("process") == process, pl.col("thread") == thread).sort("start_ns")
        return within(_bounds(phase, phases), table)

    own = _of_one_optimizer(mine("updates"), phase)
    optimizer, takes_turns = _last_in_step(own, phase.anchor)
    anchor = _outermost(own.filter(pl.col("optimizer") == optimizer))
    all_anchor, run = anchor.height, find_run(anchor, timeline.run.session, thread)
    anchor, own, waits, starts, spans = (within(run, table) for table in (anchor, own, mine("waits"), mine("starts"), mine("spans")))
    other_cells = all_anchor - anchor.height
    facts = timeline.processes[process].of(optimizer)
    passes = find_training_passes(waits, spans, _loader_of(timeline, process), anchor.height, _calls(facts, own))
    loading = _divide_loading(waits, starts, spans, passes)
    if optimizer in timeline.processes[process].by_hand:
        anchor = own = _of_batches(anchor, loading["waits"].filter(GAVE_BATCH))
    return Trainer(
        process=process,
        thread=thread,
        optimizer=optimizer,
        facts=facts,
        update_start_ns=anchor["start_ns"].to_numpy(),
        update_end_ns=anchor["end_ns"].to_numpy(),
        **loading,
        spans=spans,
        all_updates=own,
        collections=within(run, mine("collections")),
        input_code=find_input_code(timeline, process, {*loading["waits"]["iterator"], *loading["starts"]["iterator"]}),
        other_cells=other_cells,
        models=phase.models,
        elsewhere=elsewhere(phases, phase, ways, _in_turn(timeline, (process, thread), phases, phase)),
        takes_turns=takes_turns,
        joins_batches=bool(passes.joined),
        steps_per_batch=passes.steps_per_batch(loading["waits"], anchor["end_ns"].to_numpy()),
    )


def _divide_loading(waits: pl.DataFrame, starts: pl.DataFrame, spans: pl.DataFrame, passes: TrainingPasses) -> _Loading:
    feeds, started = passes.feed(waits["iterator"]) & ~waits["validation"], passes.feed(starts["iterator"])
    ends = spans.filter(pl.col("kind") == "shutdown")
    other_end = _ends_of_others(ends["iterator"], waits, feeds, passes)
    return {
        "waits": waits.filter(feeds),
        "other_waits": waits.filter(~feeds),
        "starts": starts.filter(started),
        "other_starts": starts.filter(~started),
        "ends": ends.filter(~other_end),
        "other_ends": ends.filter(other_end),
    }


def _busiest(timeline: Timeline, updates: pl.DataFrame) -> tuple[int, int, list[Phase]]:
    """Process and thread of the training with most updates, and all trainings that follow one another there."""
    found: dict[tuple[int, int], list[Phase]] = {}
    for process, thread in updates.select("process", "thread").unique(maintain_order=True).iter_rows():
        own = updates.filter(pl.col("process") == process, pl.col("thread") == thread)
        session = timeline.run.session
        # Of cells and commands the one with most updates is looked at, and told below.
        is_in_cells = session is not None and thread == session.thread and bool(session.prompts_ns)
        models = find_models(timeline.processes[process].notes["optimizers"])
        found[process, thread] = find_phases(own, _ways(timeline, process), models, apart=not is_in_cells)
    most = {key: max(phases, key=lambda phase: (phase.calls, -phase.anchor_start_ns)) for key, phases in found.items()}
    process, thread = max(most, key=lambda key: (most[key].calls, -most[key].anchor_start_ns))
    return process, thread, found[process, thread]


def _ways(timeline: Timeline, process: int) -> dict[int, tuple[Frame, ...]]:
    """The frames that lead to each optimizer's calls."""
    facts = timeline.processes[process]
    return {number: way for number, way in facts.training_paths.items() if number not in facts.by_hand}


def _in_turn(timeline: Timeline, where: tuple[int, int], phases: list[Phase], judged: Phase) -> tuple[TrainingInTurn, ...]:
    """All trainings of a thread, if they are few enough to be told one by one."""
    if not 1 < len(phases) <= MOST_IN_TURN:
        return ()
    mine, loader_of = (pl.col("process") == where[0], pl.col("thread") == where[1]), _loader_of(timeline, where[0])
    waits, spans, updates = (timeline.table(name).filter(*mine).sort("start_ns") for name in ("waits", "spans", "updates"))
    found = []
    for phase in phases:
        run = _bounds(phase, phases)
        own = within(run, waits)
        calls = _calls(timeline.processes[where[0]].of(phase.anchor), within(run, updates))
        passes = find_training_passes(own, within(run, spans), loader_of, phase.calls, calls)
        feeds = passes.feed(own["iterator"])
        # The first batch is that of the first update, which the length leaves out.
        got = own.filter(feeds, ~pl.col("validation"), GAVE_BATCH, pl.col("start_ns") > phase.start_ns)
        # Not all that is asked for is trained on where batches are filtered, or drawn from a buffer.
        is_counted = got.height > 0 and got["samples"].null_count() == 0 and not passes.joined
        samples = int(got["samples"].sum()) if is_counted else None
        found.append(TrainingInTurn(steps=phase.calls, length_ns=phase.length_ns, samples=samples, is_judged=phase is judged))
    return tuple(found)


def _calls(facts: ProcessFacts, updates: pl.DataFrame) -> Ints | None:
    """When calls began that train as a whole; None where optimizers are called after backward passes."""
    return None if facts.has_optimizers else np.asarray(updates["start_ns"].to_numpy())


def _bounds(phase: Phase, phases: list[Phase]) -> CellRun | None:
    """From the end of the training before to its own end; None where it is the only one."""
    if len(phases) == 1:
        return None
    at = phases.index(phase)
    return (phases[at - 1].end_ns if at else 0), phase.end_ns


def _of_one_optimizer(updates: pl.DataFrame, phase: Phase) -> pl.DataFrame:
    """The updates, as those of one optimizer where the script makes it anew again and again."""
    if not phase.is_made_anew:
        return updates
    return updates.with_columns(pl.lit(phase.anchor, updates.schema["optimizer"]).alias("optimizer"))


def _last_in_step(updates: pl.DataFrame, optimizer: int) -> tuple[int, bool]:
    """Of the optimizers that are called in turns with this one, as often, the one whose call ends their round, as in the first step; and
    whether there are no others.
    """
    own = updates.filter(pl.col("optimizer") == optimizer)["start_ns"]
    if own.len() < 2:
        return optimizer, True
    called = updates.group_by("optimizer").agg(pl.len().alias("calls"), pl.col("start_ns", "end_ns").first())
    # Where the recording ended in the middle of a step, one of them has a call less. One that calls another ends after it.
    turns = called.filter(pl.col("calls") >= own.len() - 1, pl.col("start_ns") < own[1]).sort("end_ns")
    if turns.is_empty():
        # By a clock that did not go on between two calls of one optimizer nothing stands before another.
        return optimizer, called.height == 1
    return int(turns["optimizer"][-1]), turns.height == called.height


def _of_batches(backwards: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The ends of backward passes that end steps: where there are several for a batch, the last one before the next request for input."""
    if not SEVERAL * waits.height <= backwards.height <= MOST_FOR_A_BATCH * waits.height:
        # One for each batch, or a batch that serves for many steps.
        return backwards
    before = np.searchsorted(waits["start_ns"].to_numpy(), backwards["end_ns"].to_numpy())
    return backwards.filter(pl.Series(np.diff(before, append=-1) != 0))


def _outermost(updates: pl.DataFrame) -> pl.DataFrame:
    """Without the calls that run inside an earlier one (a wrapper that calls step() of the same optimizer)."""
    latest = updates["end_ns"].cum_max().shift(1, fill_value=0)
    return updates.filter(updates["start_ns"] >= latest)


def _loader_of(timeline: Timeline, process: int) -> dict[int, int]:
    starts = timeline.table("starts").filter(pl.col("process") == process)
    iterators = timeline.table("iterators").filter(pl.col("process") == process)
    known = dict(zip(iterators["iterator"].to_list(), iterators["loader"].to_list(), strict=True))
    return known | dict(zip(starts["iterator"].to_list(), starts["loader"].to_list(), strict=True))


def _ends_of_others(ended: pl.Series, waits: pl.DataFrame, feeds: pl.Series, passes: TrainingPasses) -> pl.Series:
    """Which ends of workers are of iterators that do not feed the training: what was asked of them tells, else their loader."""
    read, fed = set(waits["iterator"].unique().to_list()), set(waits.filter(feeds)["iterator"].unique().to_list())

    def is_other(iterator: int | None) -> bool:
        if iterator is None:
            # Where no loader feeds the training, none of its workers end.
            return not passes.loaders
        return iterator not in fed if iterator in read else passes.loader_of.get(iterator, -1) not in passes.loaders

    return pl.Series([is_other(iterator) for iterator in ended.to_list()], dtype=pl.Boolean)
