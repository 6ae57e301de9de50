"""Time that is not every step: what recurs, what grows, what starts anew, what is slow now and then, and how long it took to begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.producers import Fetches, WaitParts
from slowstep.analyses.compute.graphs import NO_GRAPHS, GraphGrowth, Graphs, find_graph_growth, find_graphs, work_in_steps
from slowstep.analyses.input.restarts import Restarts, find_restarts
from slowstep.analyses.input.stragglers import Stragglers, find_stragglers
from slowstep.analyses.input.validation_batches import find_validation_batches
from slowstep.analyses.ledger.ledger import Ledger, with_core_delay_by_step
from slowstep.analyses.ledger.saves import GrowingSaves, find_growing_saves, is_saving, saving_steps
from slowstep.analyses.over_time.event_name import EventName
from slowstep.analyses.over_time.growth import PartGrowth, find_growth
from slowstep.analyses.over_time.periods import HIT_SHARE, find_periods
from slowstep.analyses.over_time.startup import Startup, find_startup
from slowstep.analyses.over_time.validation_pace import JudgedSamples, find_validation_pace, passes_over_loaders
from slowstep.analyses.over_time.validations import (
    Validations,
    find_fed_validations,
    find_validations,
    repeated_forwards,
    samples_judged,
)
from slowstep.analyses.over_time.written import WrittenBytes, find_written
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.step_lookup import first_of_runs
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.trends import Trend, find_trend
from slowstep.parts import COLLECTION, MODELS, OPTIMIZER, VALIDATION, Part, PartKind
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# Attention takes the square of its sequence's length, the most of what models are made of; and a tenth may be the machine's pace.
LARGEST_POWER = 2
OF_PACE = 0.1
# A model that has more to do takes longer in its forward and in its backward: the one by half as much more as the other, at least.
SHARE_OF_BOTH = 0.5
# What an optimizer's turn is made of; what else comes with it, as logging, is none of it.
WORK = (*MODELS, OPTIMIZER)
# What happens in so many of the steps is no event among them.
OF_MOST_STEPS = 0.9
QUEUED = (PartKind.CORE_WAIT, PartKind.PRODUCER_CORE_WAIT)
# An event under this share of the window is not worth a word.
SMALLEST_SHARE = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class OccasionalEvent:
    """Something that is not in every step: how often, how long each, and in which steps."""

    name: EventName | None  # of a known one
    known: bool  # what it is; else only found by its period in the lengths of steps
    part: Part  # the ledger part that holds most of it
    every_steps: float | None  # None where it was seen once
    count: int
    ns: Floats  # per step
    maybe_larger: bool = False  # forward and backward take longer together, and how large the graphs of those steps are was not seen

    @property
    def each_ns(self) -> float:
        """Mean length of one."""
        return float(self.ns.sum()) / max(self.count, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsteady:
    """How much steps without periodic events differ, and which part of them varies most."""

    variation: float  # half the distance of the 16th and 84th percentile, over the median: one standard deviation where it is normal
    part: Part
    part_share: float  # of the variance, by that part


@dataclass(frozen=True, kw_only=True, slots=True)
class OverTime:
    """Time that is not every step. None is unknown, or not seen."""

    events: tuple[OccasionalEvent, ...]
    trend: Trend | None  # of steps without their known events
    growth: PartGrowth | None
    graph: GraphGrowth | None  # of the backward passes, beside that growth
    written: WrittenBytes | None
    growing_saves: GrowingSaves | None
    startup: Startup | None
    trained_ns: int  # from the first update to the last
    restarts: Restarts
    validations: Validations | None  # where it validates
    stragglers: Stragglers | None
    unsteady: Unsteady

    def event(self, name: EventName) -> OccasionalEvent | None:
        """A known event by name."""
        return next((event for event in self.events if event.known and event.name == name), None)


def find_over_time(
    timeline: Timeline,
    trainer: Trainer,
    steps: Steps,
    ledger: Ledger,
    even: Ledger,
    fetches: Fetches,
    waits: WaitParts,
    stacks: Stacks,
    filling: Floats,
) -> OverTime:
    """Measure all of it. `even` is the ledger of steps with the usual number of forwards (forward_counts.py)."""
    restarts = find_restarts(timeline, trainer, steps, ledger, fetches, waits)
    known = _known_events(ledger, steps, _start_name(trainer), restarts.start_ns + filling)
    taken = _parts_of(ledger, known)
    quiet_ns = _without_known(ledger, steps, known)
    graphs = find_graphs(timeline, trainer, steps)
    # Where steps are missing between others, the number of a step says nothing of its phase.
    found = () if steps.excluded.any() else _found_events(ledger, quiet_ns, _turns(trainer, steps), taken, graphs)
    whole_ns = ledger.ns.sum(axis=0)
    even_ns = quiet_ns * np.divide(even.ns.sum(axis=0), whole_ns, out=np.ones_like(whole_ns), where=whole_ns > 0)
    written = find_written(timeline, steps)
    growth = find_growth(even, steps, stacks, trainer, taken, written)
    return OverTime(
        events=(*known, *found),
        trend=find_trend(even_ns),
        growth=growth,
        graph=None if growth is None else find_graph_growth(graphs, even.of_parts(growth.part)),
        written=written,
        growing_saves=find_growing_saves(trainer, steps),
        startup=find_startup(timeline, trainer, float(np.median(steps.duration_ns))),
        trained_ns=int(trainer.update_end_ns[-1] - trainer.update_end_ns[0]),
        restarts=restarts,
        validations=_validations(timeline, trainer, steps, stacks, ledger, (*known, *found)),
        stragglers=find_stragglers(timeline, trainer, steps, fetches, waits),
        unsteady=_unsteady(even, even_ns, (*known, *found)),
    )


def _validations(
    timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks, ledger: Ledger, events: tuple[OccasionalEvent, ...]
) -> Validations | None:
    validation = next((event for event in events if event.part == VALIDATION), None)
    if validation is None:
        return None
    whole_ns = float(validation.ns.sum())
    if trainer.waits.is_empty():
        found = find_validations(trainer, steps, stacks)
        passes = repeated_forwards(trainer, stacks)
        judged = JudgedSamples(
            samples=None if found.samples_ratio is None else found.samples_ratio * float(steps.samples.sum()), batch=None
        )
    else:
        found = find_fed_validations(trainer, steps, validation.count, validation.every_steps)
        passes = passes_over_loaders(trainer)
        judged = samples_judged(trainer, steps)
    return replace(
        found,
        batches=find_validation_batches(timeline, trainer, steps, stacks, whole_ns),
        pace=find_validation_pace(trainer, steps, stacks, ledger, whole_ns, judged, passes),
    )


def _start_name(trainer: Trainer) -> EventName:
    """What a start of the loader is called: in the first epoch it changes none."""
    return EventName.LOADER_START if max(trainer.starts.height, trainer.waits["iterator"].n_unique()) <= 1 else EventName.EPOCH_CHANGE


def _known_events(ledger: Ledger, steps: Steps, start_name: EventName, starting: Floats) -> list[OccasionalEvent]:
    """`starting` is what starts of the loader take of each step."""
    validating = with_core_delay_by_step(ledger, VALIDATION)
    candidates: list[tuple[EventName, Part, Floats, Ints]] = [
        (EventName.VALIDATION, VALIDATION, validating, np.flatnonzero(validating > 0)),
        (start_name, Part("preprocess", PartKind.LOADER_START), starting, np.flatnonzero(starting > 0)),
    ]
    saving = sorted((part for part in ledger.parts if is_saving(part)), key=lambda part: -ledger.total_of(part))
    if saving:
        at = saving_steps(ledger)
        ns = np.zeros(steps.count)
        ns[at] = with_core_delay_by_step(ledger, *saving)[at]
        candidates.append((EventName.CHECKPOINT, saving[0], ns, at))
    events = []
    for name, part, ns, at in candidates:
        if 0 < len(at) < OF_MOST_STEPS * steps.count and ns.sum() >= SMALLEST_SHARE * ledger.ns.sum():
            at = first_of_runs(at)
            every = float(np.median(np.diff(at))) if len(at) > 1 else None
            events.append(OccasionalEvent(name=name, known=True, part=part, every_steps=every, count=len(at), ns=ns))
    return events


def _parts_of(ledger: Ledger, known: list[OccasionalEvent]) -> list[Part]:
    """The parts that known events take, and the collector."""
    saves = any(event.name == EventName.CHECKPOINT for event in known)
    return [COLLECTION, *(event.part for event in known), *(part for part in ledger.parts if saves and is_saving(part))]


def _turns(trainer: Trainer, steps: Steps) -> NDArray[np.bool_]:
    """In which stretches between boundaries another optimizer than the anchor has updated."""
    others = trainer.all_updates.filter(pl.col("optimizer") != trainer.optimizer)["end_ns"].to_numpy()
    stretch = np.searchsorted(steps.edges_ns, others) - 1
    turns = np.zeros(steps.stretches, dtype=np.bool_)
    turns[stretch[(stretch >= 0) & (stretch < steps.stretches)]] = True
    return turns


def _without_known(ledger: Ledger, steps: Steps, known: Iterable[OccasionalEvent]) -> Floats:
    """What is left of each step, in ns, without what is known to recur or to be others' doing."""
    # What the step waited for a core is others' doing, or comes with any part of it: it neither recurs nor grows by itself.
    queued_ns = sum((ledger.of(stage, *QUEUED) for stage in (*STAGES, UNATTRIBUTED)), np.zeros(steps.count))
    # Collections recur, and grow with what is kept: they are named, and have a rule of their own.
    taken_ns = sum((event.ns for event in known), queued_ns + ledger.of_parts(COLLECTION))
    return np.clip(steps.duration_ns.astype(np.float64) - taken_ns, 0, None)


def _found_events(
    ledger: Ledger, quiet_ns: Floats, turns: NDArray[np.bool_], taken: Sequence[Part] = (), graphs: Graphs = NO_GRAPHS
) -> list[OccasionalEvent]:
    """What recurs in `quiet_ns`, from which the parts `taken` are left out already; `turns` are the steps with another network's turn."""
    events: list[OccasionalEvent] = []
    for period in find_periods(quiet_ns):
        # Where a rarer one takes its time too, the parts of such a step tell of both.
        at, others = _alone(period.at, events), _alone(period.others, events)
        part = _longer_part(ledger, at, others, taken)
        ns = np.zeros(len(quiet_ns))
        ns[period.at] = period.ns
        if part is None or ns.sum() < SMALLEST_SHARE * ledger.ns.sum():
            continue
        # In a loop without a loader stacks tell a validation, and smear a little of it over all steps: its period tells when it was.
        validation = part == VALIDATION
        if validation:
            # Of one that takes longer every so many times, all are validations.
            events = [event for event in events if event.part != part or np.setdiff1d(np.flatnonzero(event.ns), period.at).size]
            ns[period.at] = with_core_delay_by_step(ledger, part)[period.at]
        is_larger = _is_larger(ledger, graphs, part, at, others, len(quiet_ns))
        names = (
            (EventName.TURN, _is_turn(part, turns, at, others)),
            (EventName.LARGER, is_larger),
            (EventName.VALIDATION, validation),
        )
        name = next((name for name, is_it in names if is_it), None)
        events.append(
            OccasionalEvent(
                name=name,
                known=name is not None,
                part=part,
                every_steps=float(period.steps),
                count=len(period.at),
                ns=ns,
                maybe_larger=is_larger is None,
            )
        )
    return events


def _is_larger(ledger: Ledger, graphs: Graphs, part: Part, at: Ints, others: Ints, steps: int) -> bool | None:
    """Whether the steps `at` take longer because they compute more: forward and backward both, as much as their graphs are larger. None
    where no graph tells.
    """
    if part not in MODELS or not _are_both_longer(ledger, at, others):
        return False
    size = work_in_steps(graphs, at, steps)
    return None if size is None else _times(ledger, part, at, others) <= (1 + OF_PACE) * size**LARGEST_POWER


def _longer_part(ledger: Ledger, at: Ints, others: Ints, taken: Sequence[Part]) -> Part | None:
    """What takes most of that by which the steps `at` are longer; None where nothing does that is not `taken` already."""
    excess = ledger.ns[:, at].mean(axis=1) - ledger.ns[:, others].mean(axis=1)
    excess[[part in taken or part.kind in QUEUED for part in ledger.parts]] = 0.0
    return ledger.parts[int(excess.argmax())] if excess.max() > 0 else None


def _alone(at: Ints, events: list[OccasionalEvent]) -> Ints:
    """Those of the steps in which none of the events is, if there are any."""
    alone = np.setdiff1d(at, [step for event in events for step in np.flatnonzero(event.ns).tolist()])
    return alone if alone.size else at


def _is_turn(part: Part, turns: NDArray[np.bool_], at: Ints, others: Ints) -> bool:
    """Whether another network has its turn in the steps `at`: of a generator that updates once for five updates of its critic, that step
    has the work of both.
    """
    return bool(part in WORK and turns[at].mean() >= HIT_SHARE and turns[others].mean() <= 1 - HIT_SHARE)


def _are_both_longer(ledger: Ledger, at: Ints, others: Ints) -> bool:
    """Whether a model's forward takes longer in the steps `at` as well as its backward."""
    less, more = sorted(_times(ledger, part, at, others) - 1 for part in MODELS)
    return less >= SHARE_OF_BOTH * more > 0


def _times(ledger: Ledger, part: Part, at: Ints, others: Ints) -> float:
    """How many times as long as in the others a part takes in the steps `at`."""
    ns = ledger.of_parts(part)
    usual = float(ns[others].mean())
    return float(ns[at].mean()) / usual if usual > 0 else np.inf


def variation(per_step: Floats) -> float:
    """One standard deviation, from the 16th and 84th percentile, relative to the median; without NaN, and 0 where nothing is known."""
    known = per_step[~np.isnan(per_step)]
    if not len(known):
        return 0.0
    low, middle, high = np.percentile(known, [16, 50, 84])
    return float((high - low) / 2 / max(middle, 1.0))


def _unsteady(ledger: Ledger, quiet_ns: Floats, events: tuple[OccasionalEvent, ...]) -> Unsteady:
    plain = np.ones(len(quiet_ns), dtype=bool)
    for event in events:
        plain[event.ns > 0] = False
    plain = plain if plain.sum() >= len(plain) / 2 else np.ones(len(quiet_ns), dtype=bool)
    rows = ledger.ns[:, plain] - ledger.ns[:, plain].mean(axis=1, keepdims=True)
    shared = rows @ rows.sum(axis=0)
    largest = int(shared.argmax())
    # What others vary against it would make it more than all.
    share = min(float(shared[largest] / max(shared.sum(), 1.0)), 1.0)
    return Unsteady(variation=variation(quiet_ns[plain]), part=ledger.parts[largest], part_share=share)
