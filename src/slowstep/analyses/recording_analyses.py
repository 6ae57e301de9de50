"""What analyses of a recording share: each result is made when something first needs it, and kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, cast

import numpy as np
import polars as pl

from slowstep.analyses.after_update.timed_gaps import TimedGaps, find_timed_gaps, times_of_functions
from slowstep.analyses.after_update.timed_lines import TimedLines, find_timed_lines
from slowstep.analyses.batches.asked_samples import with_asked_samples
from slowstep.analyses.batches.counted_work import CountedWork, find_counted
from slowstep.analyses.batches.demand import Demand, find_demand, producers_of
from slowstep.analyses.batches.loader import Loader, find_loader
from slowstep.analyses.batches.made_by_loader import MadeByLoader, find_made_by_loader
from slowstep.analyses.batches.producers import ACCOUNT, Fetches, WaitParts, find_fetches
from slowstep.analyses.batches.sampler import SamplerTime
from slowstep.analyses.batches.wait_causes import divide_waits_by_cause
from slowstep.analyses.compute.forward_counts import at_usual_counts
from slowstep.analyses.compute.work import Work, find_work
from slowstep.analyses.ledger.captured_ledger import with_captured_ledger
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.recording_ledger import build_ledger
from slowstep.analyses.machine.load import Load, find_load, without_strangers
from slowstep.analyses.machine.machine import Machine, find_machine
from slowstep.analyses.measurements import CapturedWindow, Measurements
from slowstep.analyses.python.concurrent_threads import ConcurrentThreads, find_concurrent_threads
from slowstep.analyses.python.functions import Stacks, read_stacks
from slowstep.analyses.sharing.sharing import NONE_MISSING, MissingRanks, load_among_launchers
from slowstep.analyses.steps.captures import Capture, find_capture
from slowstep.analyses.steps.steps import Floats, Steps, find_steps
from slowstep.analyses.steps.suspensions import Suspensions, find_suspensions
from slowstep.analyses.steps.trainer import Trainer, find_trainer
from slowstep.errors import SlowstepError
from slowstep.faults import Attempts, Fault
from slowstep.frameworks._known import device_of
from slowstep.timeline.timeline import Timeline

# Of the timeline: what is read here, besides what packages of analyses do.
TABLES: Final = frozenset({"aggregates", "cpu_marks", "readings", "totals"})
# What measures a capture; None of one that left no file. Raises UnreadableInput.
MeasureCapture = Callable[[Capture], Measurements | None]


class RecordingAnalyses:
    """The analyses of one training of a recording: what one finds is kept for the others that need it."""

    def __init__(
        self,
        timeline: Timeline,
        warmup: int | None,
        process: int | None,
        measure_capture: MeasureCapture | None = None,
        missing: MissingRanks = NONE_MISSING,
    ) -> None:
        self.attempt = Attempts()
        self.timeline, self.missing = timeline, missing
        self._warmup, self._process, self._measure_capture = warmup, process, measure_capture

    @cached_property
    def first_trainer(self) -> Trainer:
        """Who trains, as far as that is known before its input is."""
        return self.attempt(find_trainer, self.timeline, self._process)

    @cached_property
    def trainer(self) -> Trainer:
        """Who trains."""
        return self.attempt(with_asked_samples, self.first_trainer, self.fetches, self.waits)

    @cached_property
    def suspensions(self) -> Suspensions:
        """When the process stood still."""
        return self.attempt(find_suspensions, self.timeline, self.first_trainer)

    @cached_property
    def fetches(self) -> Fetches:
        """The making of batches."""
        return self.attempt(find_fetches, self.timeline, self.first_trainer, self.suspensions, self.stacks)

    @cached_property
    def stacks(self) -> Stacks:
        """Stacks of the training thread."""
        return self.attempt(_stacks, self.timeline, self.first_trainer)

    @cached_property
    def _waits_and_sampler(self) -> tuple[WaitParts, SamplerTime | None]:
        return self.attempt.several(2, divide_waits_by_cause, self.timeline, self.first_trainer, self.fetches, self.stacks)

    @property
    def waits(self) -> WaitParts:
        """Requests for input, divided."""
        return self._waits_and_sampler[0]

    @property
    def sampler_time(self) -> SamplerTime | None:
        """What the loader's sampler does in them."""
        return self._waits_and_sampler[1]

    @cached_property
    def capture(self) -> Capture | None:
        """The steps that a profiler captured."""
        return self.attempt(find_capture, self.trainer)

    @cached_property
    def steps(self) -> Steps:
        """The steps of the window."""
        return self.attempt(_steps, self.timeline, self.trainer, self.suspensions, self._warmup, self.capture)

    @cached_property
    def work(self) -> Work:
        """The steps' own work."""
        return self.attempt(find_work, self.timeline, self.trainer, self.steps, self.stacks)

    @cached_property
    def gaps(self) -> TimedGaps | None:
        """Calls that were timed after updates, of a loop that is fed."""
        return self.attempt(_timed_gaps, self.timeline, self.trainer)

    @cached_property
    def gap_lines(self) -> TimedLines | None:
        """Lines that were timed after updates, of a loop that is not."""
        return self.attempt(_timed_lines, self.timeline, self.trainer)

    @cached_property
    def concurrent_threads(self) -> ConcurrentThreads:
        """Other threads of the process."""
        return self.attempt(_concurrent_threads, self.timeline, self.trainer, self.steps)

    @cached_property
    def device(self) -> str:
        """Where the parameters are."""
        return self.attempt(_device, self.trainer)

    @cached_property
    def counted(self) -> CountedWork | None:
        """What threads of the framework did, where it keeps sums only."""
        return self.attempt(find_counted, self.timeline, self.trainer, self.steps)

    @cached_property
    def ledger(self) -> Ledger:
        """The account of the window."""
        return self.attempt(
            _ledger,
            self.timeline,
            self.trainer,
            self.steps,
            self.waits,
            self.stacks,
            self.gaps,
            self.gap_lines,
            self.concurrent_threads,
            self.device,
            self.counted,
        )

    @property
    def has_captured(self) -> bool:
        """Whether a profiler captured some steps, and somebody measures them."""
        return self.capture is not None and self._measure_capture is not None

    @cached_property
    def captured(self) -> CapturedWindow:
        """The captured steps, measured, where there are some."""
        capture, measure = cast(Capture, self.capture), cast(MeasureCapture, self._measure_capture)
        return self.attempt(_captured, capture, measure, self.attempt.faults)

    @cached_property
    def completed_ledger(self) -> Ledger:
        """The account, with what only a capture shows."""
        return self.attempt.otherwise(self.ledger, _completed, self.ledger, self.captured) if self.has_captured else self.ledger

    @cached_property
    def even(self) -> Ledger:
        """The same as if each step had the usual number of forwards."""
        return self.attempt(at_usual_counts, self.ledger, self.trainer, self.steps)

    @cached_property
    def made_by_loader(self) -> tuple[MadeByLoader, ...]:
        """What making batches takes, apart for each loader."""
        return self.attempt(find_made_by_loader, self.timeline, self.trainer, self.waits, self.steps)

    @cached_property
    def loader(self) -> Loader | None:
        """The loader that feeds the training."""
        return self.attempt(find_loader, self.timeline, self.trainer)

    @cached_property
    def producers(self) -> list[int]:
        """The processes that make its batches."""
        return self.attempt(producers_of, self.timeline, self.trainer, self.fetches, self.loader)

    @cached_property
    def demand(self) -> Demand:
        """What making a step's batches takes."""
        return self.attempt(find_demand, self.timeline, self.trainer, self.fetches, self.steps, self.loader)

    @cached_property
    def filling(self) -> Floats:
        """Waits per step for an iterator's first batch."""
        return self.attempt(_filling, self.waits, self.steps)

    @cached_property
    def trainer_cpu_ns(self) -> float | None:
        """CPU time of the training thread per step."""
        return self.attempt(_cpu_per_step, self.timeline, self.trainer, self.steps, self.suspensions)

    @cached_property
    def load(self) -> Load:
        """Who uses the cores."""
        return self.attempt(_load, self.timeline, self.steps, self.trainer, self.trainer_cpu_ns)

    @cached_property
    def resources(self) -> Machine:
        """What was read of the machine."""
        return self.attempt(find_machine, self.timeline, self.trainer, self.steps, self.suspensions, self.device)


def _captured(capture: Capture, measure: MeasureCapture, faults: list[Fault]) -> CapturedWindow:
    """The captured steps, measured; `faults` grows with those of that."""
    try:
        m = measure(capture)
    except (SlowstepError, OSError) as error:
        return CapturedWindow(capture=capture, unreadable=str(error) or type(error).__name__)
    faults += () if m is None else m.faults
    return CapturedWindow(capture=capture, m=m)


def _completed(ledger: Ledger, captured: CapturedWindow) -> Ledger:
    return ledger if captured.device is None else with_captured_ledger(ledger, captured.device.ledger)


def _steps(timeline: Timeline, trainer: Trainer, suspensions: Suspensions, warmup: int | None, capture: Capture | None) -> Steps:
    return find_steps(trainer, timeline.table("totals"), suspensions, warmup, capture=capture, counted=timeline.table("aggregates"))


def _timed_gaps(timeline: Timeline, trainer: Trainer) -> TimedGaps | None:
    return find_timed_gaps(timeline, trainer.process) if trainer.is_fed else None


def _timed_lines(timeline: Timeline, trainer: Trainer) -> TimedLines | None:
    return None if trainer.is_fed else find_timed_lines(trainer, times_of_functions(timeline, trainer.process))


def _stacks(timeline: Timeline, trainer: Trainer) -> Stacks:
    return read_stacks(timeline, trainer.process, trainer.thread)


def _ledger(
    timeline: Timeline,
    trainer: Trainer,
    steps: Steps,
    waits: WaitParts,
    stacks: Stacks,
    gaps: TimedGaps | None,
    gap_lines: TimedLines | None,
    beside: ConcurrentThreads,
    device: str,
    counted: CountedWork | None,
) -> Ledger:
    timed = gaps or gap_lines
    cores, is_held = beside.holding_cores, beside.gil_waits is not None and beside.gil_waits.shows_held is True
    return build_ledger(
        timeline, trainer, steps, waits, stacks, timed, device=device, beside_cores=cores, gil_is_held=is_held, counted=counted
    )


def _concurrent_threads(timeline: Timeline, trainer: Trainer, steps: Steps) -> ConcurrentThreads:
    load = find_load(timeline.table("readings"), steps.edges_ns, trainer.facts.cores)
    return find_concurrent_threads(timeline, trainer, steps, crowded=load.busy or load.is_full)


def _load(timeline: Timeline, steps: Steps, trainer: Trainer, trainer_cpu_ns: float | None) -> Load:
    trainer_cores = None if trainer_cpu_ns is None else trainer_cpu_ns * steps.count / steps.length_ns
    load = load_among_launchers(timeline, find_load(timeline.table("readings"), steps.edges_ns, trainer.facts.cores))
    return without_strangers(load, trainer_cores)


def _filling(waits: WaitParts, steps: Steps) -> Floats:
    step = np.searchsorted(steps.edges_ns, waits.start_ns, side="right") - 1
    mine = waits.first & (step >= 0) & (step < steps.stretches)
    made = waits.parts[mine, : len(ACCOUNT)].sum(axis=1)
    return np.bincount(step[mine], weights=made, minlength=steps.stretches).astype(np.float64)[~steps.excluded]


def _device(trainer: Trainer) -> str:
    """Where the parameters are; the processor where nothing says otherwise."""
    notes = trainer.facts.notes
    own = next((note.get("device") for note in notes["optimizers"] if note.get("id") == trainer.optimizer), None)
    return str(own or device_of(notes["facts"]) or "cpu")


def _cpu_per_step(timeline: Timeline, trainer: Trainer, steps: Steps, suspensions: Suspensions) -> float | None:
    marks = timeline.table("cpu_marks").filter(
        pl.col("process") == trainer.process,
        pl.col("thread") == trainer.thread,
        pl.col("time_ns").is_between(*steps.bounds_ns),
    )
    marks = marks.sort("time_ns")
    if marks.height < 2 or marks["time_ns"][0] == marks["time_ns"][-1]:
        return None
    first, last = marks.row(0, named=True), marks.row(-1, named=True)
    _, stopped_s = suspensions.within(first["time_ns"], last["time_ns"])
    rate = (last["cpu_ns"] - first["cpu_ns"]) / (last["time_ns"] - first["time_ns"] - stopped_s * 1e9)
    return float(rate * steps.length_ns / steps.count)
