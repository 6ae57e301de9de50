"""Who trains: the process, the anchor optimizer, the training thread, and the loaders that feed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.phases import Elsewhere, Phase, elsewhere, find_phases, longest
from slowstep.analyses.prompts import Run, find_run, within
from slowstep.analyses.typed import without_shell
from slowstep.analyses.untrained import describe_untrained
from slowstep.errors import NothingRecorded
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Frame, Loops, ProcessFacts, Timeline

# A loader feeds the training when at least half of its batches are used by a backward: of batches asked for in a row, as many as there are
# backwards before anything else is asked for (gradients are accumulated over batches asked for together). A validation's are used by
# none, except one of each pass.
FEEDS_SHARE = 0.5
# Backward passes for a batch, on average: a pair of networks has two; one that is read once for a whole training has thousands.
SEVERAL, MOST_FOR_A_BATCH = 1.5, 8
# A validation calls its model once for each batch, or for the batch and its mirror image.
CALLS_TO_JUDGE = 2
# The design's: of so many updates a request for input must follow, for it to be the boundary of steps.
BOUNDARY_SHARE = 0.95
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer:
    """One rank's training thread: its updates (outermost calls of the anchor optimizer) and its requests for input."""

    process: int
    thread: int
    optimizer: int
    facts: ProcessFacts
    update_start_ns: Ints
    update_end_ns: Ints
    waits: pl.DataFrame  # the training thread's, of the training's loaders
    other_waits: pl.DataFrame  # the training thread's, of other loaders (validation)
    starts: pl.DataFrame  # of the training's loaders
    other_starts: pl.DataFrame
    ends: pl.DataFrame  # of the workers of the training's iterators, and of those of which it is not known whose they are
    other_ends: pl.DataFrame
    spans: pl.DataFrame
    all_updates: pl.DataFrame
    collections: pl.DataFrame  # of garbage, on the training thread
    other_cells: int = 0  # updates of a session that ran before or after a prompt: between two of them nobody trained
    elsewhere: Elsewhere | None = None  # the trainings of this thread before and after this one, each with an optimizer of its own
    takes_turns: bool = True  # every optimizer updates once in each step, in the same order
    is_fed: bool = field(init=False)  # every step has its own batches of a loader; else the loop makes its input itself, or a part of it

    def __post_init__(self) -> None:
        # After the last update there may be no request any more: it says nothing about the others.
        asked = self.next_request_ns()[:-1] < _NEVER
        object.__setattr__(self, "is_fed", bool(len(asked)) and bool(asked.mean() >= BOUNDARY_SHARE))

    def next_request_ns(self) -> Ints:
        """For each update, the first request for input between its end and the next update; the largest number where there is none."""
        requests, ends = self.waits["start_ns"].to_numpy(), self.update_end_ns
        following = np.append(requests, _NEVER)[np.searchsorted(requests, ends)]
        limit = np.append(self.update_start_ns[1:], _NEVER - 1)
        return np.where(following <= limit, following, _NEVER)

    @property
    def by_hand(self) -> bool:
        """Whether the script has no optimizer: its updates are ends of backward passes, and it makes them after those."""
        return self.optimizer in self.facts.by_hand

    @property
    def body_end_ns(self) -> Ints:
        """Where bodies of steps end: with the anchor optimizer's updates, with all where optimizers do not take turns."""
        return self.update_end_ns if self.takes_turns else np.asarray(self.outer_updates["end_ns"].to_numpy())

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


def training_processes(timeline: Timeline) -> list[int]:
    """Processes that called an optimizer, in the order in which they first did."""
    first = timeline.table("updates").group_by("process").agg(pl.col("start_ns").min())
    return first.sort("start_ns")["process"].to_list()


def find_trainer(timeline: Timeline, process: int | None = None) -> Trainer:
    """Who trains in a process; in that with most updates where none is named. Raises NothingRecorded where none called an optimizer."""
    updates = timeline.table("updates")
    if process is not None:
        updates = updates.filter(pl.col("process") == process)
    if updates.is_empty():
        raise NothingRecorded(describe_untrained(timeline))
    process, thread, phases = _busiest(timeline, updates)
    phase = longest(phases)

    def mine(name: str) -> pl.DataFrame:
        table = timeline.table(name).filter(pl.col("process") == process, pl.col("thread") == thread).sort("start_ns")
        return within(_bounds(phase, phases), table)

    own, optimizer = mine("updates"), phase.anchor
    if phase.is_made_anew:
        own = own.with_columns(pl.lit(optimizer, own.schema["optimizer"]).alias("optimizer"))
    optimizer, takes_turns = _last_in_step(own, optimizer)
    anchor = _outermost(own.filter(pl.col("optimizer") == optimizer))
    all_anchor, run = anchor.height, find_run(anchor, timeline.run.session, thread)
    anchor, own, waits, starts, spans = (within(run, table) for table in (anchor, own, mine("waits"), mine("starts"), mine("spans")))
    other_cells = all_anchor - anchor.height
    loaders = _loader_of(timeline, process)
    training = _training_loaders(waits, spans, loaders)
    feeds = waits["iterator"].replace_strict(loaders, default=-1, return_dtype=pl.Int64).is_in(list(training))
    ends = spans.filter(pl.col("kind") == "shutdown")
    other_end = _ends_of_others(ends["iterator"], waits, feeds & ~waits["validation"], loaders, training)
    if optimizer in timeline.processes[process].by_hand:
        anchor = own = _of_batches(anchor, waits.filter(feeds & ~waits["validation"], ~pl.col("exhausted"), ~pl.col("failed")))
    return Trainer(
        process=process,
        thread=thread,
        optimizer=optimizer,
        facts=timeline.processes[process],
        update_start_ns=anchor["start_ns"].to_numpy(),
        update_end_ns=anchor["end_ns"].to_numpy(),
        waits=waits.filter(feeds & ~waits["validation"]),
        other_waits=waits.filter(~feeds | waits["validation"]),
        starts=starts.filter(pl.col("loader").is_in(list(training))),
        other_starts=starts.filter(~pl.col("loader").is_in(list(training))),
        ends=ends.filter(~other_end),
        other_ends=ends.filter(other_end),
        spans=spans,
        all_updates=own,
        collections=within(run, mine("collections")),
        other_cells=other_cells,
        elsewhere=elsewhere(phases, phase),
        takes_turns=takes_turns,
    )


def _busiest(timeline: Timeline, updates: pl.DataFrame) -> tuple[int, int, list[Phase]]:
    """Process and thread of the training with most updates, and all trainings that follow one another there."""
    found: dict[tuple[int, int], list[Phase]] = {}
    for process, thread in updates.select("process", "thread").unique(maintain_order=True).iter_rows():
        own = updates.filter(pl.col("process") == process, pl.col("thread") == thread)
        session = timeline.run.session
        # Of cells and commands the one with most updates is looked at, and told below.
        is_in_cells = session is not None and thread == session.thread and bool(session.prompts_ns)
        facts = timeline.processes[process]
        ways = {number: way for number, way in facts.training_paths.items() if number not in facts.by_hand}
        found[process, thread] = find_phases(own, ways, apart=not is_in_cells)
    most = {key: max(phases, key=lambda phase: (phase.calls, -phase.anchor_start_ns)) for key, phases in found.items()}
    process, thread = max(most, key=lambda key: (most[key].calls, -most[key].anchor_start_ns))
    return process, thread, found[process, thread]


def _bounds(phase: Phase, phases: list[Phase]) -> Run | None:
    """From the end of the training before to its own end; None where it is the only one."""
    if len(phases) == 1:
        return None
    at = phases.index(phase)
    return (phases[at - 1].end_ns if at else 0), phase.end_ns


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


def _ends_of_others(ended: pl.Series, waits: pl.DataFrame, feeds: pl.Series, loaders: dict[int, int], training: set[int]) -> pl.Series:
    """Which ends of workers are of iterators that do not feed the training: what was asked of them tells, else their loader."""
    read, fed = set(waits["iterator"].unique().to_list()), set(waits.filter(feeds)["iterator"].unique().to_list())

    def is_other(iterator: int | None) -> bool:
        if iterator is None:
            # Where no loader feeds the training, none of its workers end.
            return not training
        return iterator not in fed if iterator in read else loaders.get(iterator, -1) not in training

    return pl.Series([is_other(iterator) for iterator in ended.to_list()], dtype=pl.Boolean)


def _training_loaders(waits: pl.DataFrame, spans: pl.DataFrame, loaders: dict[int, int]) -> set[int]:
    got = waits.filter(~pl.col("exhausted"), ~pl.col("failed"))
    if got.is_empty():
        return set()
    loader: NDArray[Any] = got["iterator"].replace_strict(loaders, default=-1, return_dtype=pl.Int64).to_numpy()
    backward = np.sort(spans.filter(pl.col("kind") == "backward")["start_ns"].to_numpy())
    end, start = got["end_ns"].to_numpy(), got["start_ns"].to_numpy()
    trains = ~_only_judged(loader, backward, end, start, spans)
    direct = _used(loader, backward, end, start) * trains
    training: set[int] = {int(i) for i in np.unique(loader) if direct[loader == i].mean() >= FEEDS_SHARE}
    most = max((int((loader == i).sum()) for i in training), default=0)
    for i in set(np.unique(loader).tolist()) - training:
        own = loader == i
        between = trains[own] & _backward_between(backward, end[own], np.append(start[own][1:], _NEVER))
        # The first of two loaders read one after the other (a GAN's) is not followed by a backward at once, but is read as often.
        if between.mean() >= FEEDS_SHARE and own.sum() >= FEEDS_SHARE * most:
            training.add(int(i))
    return training


def _used(loader: NDArray[Any], backward: Ints, end_ns: Ints, start_ns: Ints) -> NDArray[np.float64]:
    """For each batch, which part of the batches of its row is used: backwards after the row, at most as many as it has batches."""
    first = np.flatnonzero(np.append(True, _row_ends(loader, backward, end_ns, start_ns)[:-1]))
    length = np.diff(np.append(first, len(loader)))
    last = first + length - 1
    following = np.append(start_ns[1:], np.iinfo(np.int64).max)[last]
    backwards = np.searchsorted(backward, following) - np.searchsorted(backward, end_ns[last])
    return np.repeat(np.minimum(backwards, length) / length, length)


def _only_judged(loader: NDArray[Any], backward: Ints, end_ns: Ints, start_ns: Ints, spans: pl.DataFrame) -> NDArray[np.bool_]:
    """Which batches are of rows that the model is judged by, a validation's: it has done with each when the next is asked for. Those of an
    accumulation that are asked for together wait for what comes after their row. A row of one batch may be a teacher's step: it is
    judged by if many backwards follow.
    """
    last = _row_ends(loader, backward, end_ns, start_ns)
    row = np.append(0, np.cumsum(last)[:-1])
    following = np.append(start_ns[1:], _NEVER)
    trained = np.append(backward, _NEVER)[np.searchsorted(backward, end_ns)]
    judged = _judged(spans, end_ns, np.minimum(following, trained))
    backwards = np.bincount(row, np.where(last, np.searchsorted(backward, following) - np.searchsorted(backward, end_ns), 0))
    several = (np.bincount(row) > 1) | (backwards > MOST_FOR_A_BATCH)
    return np.asarray((several & (np.bincount(row, judged) == np.bincount(row)))[row])


def _judged(spans: pl.DataFrame, end_ns: Ints, limit_ns: Ints) -> NDArray[np.bool_]:
    """Which batches are followed, before a limit each, by a forward without gradients of a model that is trained as well; and by few of
    each model: whoever generates a text calls it for each word.
    """
    forwards = spans.filter(pl.col("kind") == "forward").with_columns(pl.col("gradients").fill_null(True), pl.col("module").fill_null(0))
    trained = forwards.filter("gradients")["module"].unique()
    calls = forwards.filter(~pl.col("gradients")).select("start_ns", "module")
    batch = np.searchsorted(end_ns, calls["start_ns"].to_numpy(), side="right") - 1
    inside = (batch >= 0) & (calls["start_ns"].to_numpy() < limit_ns[batch])
    counted = calls.with_columns(batch=pl.Series(batch)).filter(pl.Series(inside)).group_by("batch", "module").len()
    most = counted.group_by("batch").agg(pl.col("len").max(), judged=pl.col("module").is_in(trained.implode()).any())
    found = np.zeros(len(end_ns), np.bool_)
    found[most.filter(pl.col("len") <= CALLS_TO_JUDGE, "judged")["batch"].to_numpy()] = True
    return found


def _row_ends(loader: NDArray[Any], backward: Ints, end_ns: Ints, start_ns: Ints) -> NDArray[np.bool_]:
    """Which batches are the last of those that are asked for in a row: then comes a backward, or a batch of another loader."""
    following = np.append(start_ns[1:], np.iinfo(np.int64).max)
    return np.asarray(_backward_between(backward, end_ns, following) | (np.append(loader[1:], -2) != loader))


def _backward_between(backward: Ints, after_ns: Ints, before_ns: Ints) -> NDArray[np.bool_]:
    at = np.searchsorted(backward, after_ns)
    following = np.append(backward, np.iinfo(np.int64).max)[at]
    return following < before_ns
