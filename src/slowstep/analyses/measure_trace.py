"""A trace becomes measurements: every analysis once, when something first needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Final, Literal

import polars as pl

from slowstep.analyses.completeness import Completeness, find_completeness
from slowstep.analyses.device.allocations import find_allocations
from slowstep.analyses.device.clocks import Clocks, find_clocks
from slowstep.analyses.device.compilations import find_compilations
from slowstep.analyses.device.copies import find_copies
from slowstep.analyses.device.device_topic import DeviceTopic
from slowstep.analyses.device.kernels import find_kernels
from slowstep.analyses.device.launches import find_launches
from slowstep.analyses.device.loss_scaling import find_loss_scaling
from slowstep.analyses.device.operators import find_operators
from slowstep.analyses.device.placement import find_placement
from slowstep.analyses.device.synchronizations import find_synchronizations
from slowstep.analyses.events.device_work import busiest_device
from slowstep.analyses.input.loader_requests import find_requests
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.named_work import find_named_work
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.replay.replay import find_replay
from slowstep.analyses.replay.replay_topic import ReplayTopic
from slowstep.analyses.sharing.collectives import find_collectives
from slowstep.analyses.steps.marks_topic import MarksTopic
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trace_steps import as_steps, find_trace_steps
from slowstep.analyses.steps.traced_training import batch_size as batch_size_of
from slowstep.analyses.steps.traced_training import find_words, is_training
from slowstep.analyses.steps.training_topic import TrainingTopic
from slowstep.errors import BadUsage
from slowstep.faults import Attempts, Results
from slowstep.reasons import Reason, Wording
from slowstep.timeline.coverage import KindCoverage
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace import TraceFacts

# Of the timeline: what is read here, besides what packages of analyses do.
TABLES: Final = frozenset({"trace_devices"})

ChosenStep = int | Literal["slowest", "median"] | None
STEP_CHOSEN = Wording("step-chosen", "of {steps} whole steps you chose step {number}{which}: all that is said here is of it alone")
CHOSEN_BY = Wording("chosen-by", ", the {which} one")


def measure_trace(timeline: Timeline, *, batch_size: int | None = None, step: ChosenStep = None) -> Measurements:
    """Measure one rank's trace; of one step only where one is chosen, by its number in the trace or by its length.

    An analysis that fails by a fault of its own takes only what needs it with it. Raises BadUsage for a step that is not in the trace,
    ValueError for a timeline that is of no trace.
    """
    if timeline.trace is None:
        raise ValueError("the timeline is of a recording, not of a trace")
    analyses = _TraceAnalyses(timeline, batch_size, step)
    # Whether there is such a step is known at once.
    _ = analyses.step_rows
    return Measurements({topic: partial(make, analyses) for topic, make in MAKERS.items()}, analyses.attempt.faults)


class _TraceAnalyses:
    """The analyses of one trace: what one finds is kept for the others that need it."""

    def __init__(self, timeline: Timeline, batch_size: int | None, step: ChosenStep) -> None:
        self.attempt = Attempts()
        self._timeline, self._given_size, self._step = timeline, batch_size, step

    def marks_topic(self) -> MarksTopic:
        """By what steps are known."""
        return MarksTopic(
            table=self.step_rows,
            whole_steps=self.attempt(len, self._whole),
            notes=self.attempt(_notes, self._steps_and_notes[1], self._whole, self.step_rows, self._step),
        )

    def facts_topic(self) -> TraceFacts | None:
        """What it says of itself."""
        return self._timeline.trace

    def steps_topic(self) -> Steps:
        """The steps of the window."""
        # Steps are known without it.
        size, size_from = self.attempt.otherwise((None, None), _batch_size, self._timeline, self.step_rows, self._given_size)
        return self.attempt(as_steps, self.step_rows, self.attempt(len, self._whole), size, size_from)

    def device_topic(self) -> DeviceTopic:
        """The device's work."""
        device = self.attempt(_judged_device, self._timeline)
        return DeviceTopic(
            seen=self.attempt(bool, device),
            name=self.attempt.named("device_name", lambda: device.get("name")),
            compute_capability=self.attempt.named("compute_capability", lambda: device.get("compute_capability")),
            busy_share=self.attempt(_busy_share, device, self.step_rows, self.gaps),
            gaps=self.gaps,
            **self._tables,
        )

    def replay_topic(self) -> ReplayTopic:
        """Replayed steps."""
        known = Results({**self._tables, "loader": self._tables["requests"]})
        return self.attempt(_replayed, self._timeline, self.step_rows, known, self._callers, self._clocks)

    def training_topic(self) -> TrainingTopic:
        """Whose loop trains."""
        return TrainingTopic(words=self.attempt(find_words, self._timeline), is_training=self.attempt(is_training, self._timeline))

    def coverage_topic(self) -> Mapping[str, KindCoverage]:
        """What the source can see at most."""
        return self._timeline.coverage

    def completeness_topic(self) -> Completeness:
        """How much is there."""
        return self.attempt(find_completeness, self._timeline, self._whole, self._clocks)

    @cached_property
    def _steps_and_notes(self) -> tuple[pl.DataFrame, tuple[Reason, ...]]:
        return self.attempt.several(2, find_trace_steps, self._timeline)

    @property
    def _whole(self) -> pl.DataFrame:
        """All steps of the trace."""
        return self._steps_and_notes[0]

    @cached_property
    def step_rows(self) -> pl.DataFrame:
        """The steps that are looked at."""
        return self.attempt(_chosen, self._whole, self._step)

    @cached_property
    def _callers(self) -> Callers:
        """Who called what: it is looked up by nearly all analyses."""
        return self.attempt(Callers, self._timeline)

    @cached_property
    def ledger_and_gaps(self) -> tuple[Ledger, pl.DataFrame]:
        # Where the clocks cannot be compared, the trace's times are taken as they are.
        clock = self.attempt.otherwise(None, lambda: self._clocks.device)
        return self.attempt.several(2, partial(build_trace_ledger, clock=clock), self._timeline, self.step_rows, self._callers)

    @property
    def gaps(self) -> pl.DataFrame:
        """When the device had nothing to do."""
        return self.ledger_and_gaps[1]

    @cached_property
    def _clocks(self) -> Clocks:
        return self.attempt(find_clocks, self._timeline)

    @cached_property
    def _tables(self) -> dict[str, pl.DataFrame]:
        """The tables of the device's work, by name."""
        attempt, timeline, steps, gaps, callers = self.attempt, self._timeline, self.step_rows, self.gaps, self._callers
        return {
            "kernels": attempt(find_kernels, timeline, steps, callers),
            "operators": attempt(find_operators, timeline, steps, callers),
            "launches": attempt(find_launches, timeline, steps, gaps, callers),
            "copies": attempt(find_copies, timeline, steps, callers),
            "synchronizations": attempt(find_synchronizations, timeline, steps, gaps, callers),
            "collectives": attempt(find_collectives, timeline, steps, callers),
            "memory": attempt(find_allocations, timeline, steps),
            "requests": attempt(find_requests, timeline, steps, gaps),
            "placement": attempt(find_placement, timeline, steps, callers),
            "compilations": attempt(find_compilations, timeline, steps, gaps, callers),
            "named_work": attempt(find_named_work, timeline, steps),
            "loss_scaling": attempt(find_loss_scaling, timeline, steps, gaps, callers),
        }


# What measures each topic, in the order in which they are measured where all are: that keeps least in memory.
MAKERS: Final[Mapping[str, Callable[[_TraceAnalyses], Any]]] = {
    "facts": _TraceAnalyses.facts_topic,
    "marks": _TraceAnalyses.marks_topic,
    "steps": _TraceAnalyses.steps_topic,
    "ledger": lambda analyses: analyses.ledger_and_gaps[0],
    "device": _TraceAnalyses.device_topic,
    "replay": _TraceAnalyses.replay_topic,
    "training": _TraceAnalyses.training_topic,
    "coverage": _TraceAnalyses.coverage_topic,
    "completeness": _TraceAnalyses.completeness_topic,
}


def _replayed(timeline: Timeline, steps: pl.DataFrame, known: Results[pl.DataFrame], callers: Callers, clocks: Clocks) -> ReplayTopic:
    return ReplayTopic(table=find_replay(timeline, steps, known, callers, clocks))


def _batch_size(timeline: Timeline, steps: pl.DataFrame, given: int | None) -> tuple[int | None, str | None]:
    """Samples in a step, and by what that is known."""
    if given:
        return given, "given by --batch-size"
    found = batch_size_of(timeline, steps)
    return found, "first dimension of the input" if found else None


def _busy_share(device: dict[str, Any], steps: pl.DataFrame, gaps: pl.DataFrame) -> float | None:
    window_ns = int((steps["end_ns"] - steps["start_ns"]).sum())
    return 1 - int((gaps["end_ns"] - gaps["start_ns"]).sum()) / window_ns if device and window_ns else None


def _notes(notes: tuple[Reason, ...], whole: pl.DataFrame, steps: pl.DataFrame, step: ChosenStep) -> tuple[Reason, ...]:
    """What is to be read of the steps, and which of them was chosen."""
    if steps.height == whole.height:
        return notes
    which = None if isinstance(step, int) else CHOSEN_BY(which=step)
    return (*notes, STEP_CHOSEN(steps=whole.height, number=steps["number"][0], which=which))


def _chosen(steps: pl.DataFrame, step: ChosenStep) -> pl.DataFrame:
    if step is None:
        return steps
    length = pl.col("end_ns") - pl.col("start_ns")
    if step == "slowest":
        kept = steps.sort(length, descending=True).head(1)
    elif step == "median":
        kept = steps.sort(length).slice((steps.height - 1) // 2, 1)
    else:
        kept = steps.filter(pl.col("number") == step)
        if kept.is_empty():
            known = ", ".join(map(str, steps["number"].to_list()))
            raise BadUsage(f"--step {step}: the trace holds the whole steps {known or 'none'}.")
    return kept.with_columns(pl.lit(0, pl.Int32).alias("step"))


def _judged_device(timeline: Timeline) -> dict[str, Any]:
    """The device that is judged, as its row in `trace_devices`; empty without device events."""
    number = busiest_device(timeline)
    if number is None:
        return {}
    rows = timeline.table("trace_devices").filter(pl.col("device") == number).to_dicts()
    return rows[0] if rows else {"device": number}
