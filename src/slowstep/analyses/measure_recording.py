"""A recording becomes measurements: every analysis once, when something first needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final, cast

import numpy as np
import polars as pl

from slowstep.analyses.after_update.activities import Activity, find_activities
from slowstep.analyses.after_update.after_update_topic import AfterUpdateTopic
from slowstep.analyses.after_update.gap_parts import timed_files
from slowstep.analyses.after_update.timed_gaps import TimedGaps, find_timed_gaps, times_of_functions
from slowstep.analyses.after_update.timed_lines import TimedLines, find_timed_lines
from slowstep.analyses.batches.asked_samples import with_asked_samples
from slowstep.analyses.batches.counted_work import CountedWork, find_counted
from slowstep.analyses.batches.demand import Demand, find_demand, producers_of
from slowstep.analyses.batches.loader import Loader, find_loader
from slowstep.analyses.batches.loader_identity import find_loaders_framework
from slowstep.analyses.batches.made_by_loader import MadeByLoader, find_made_by_loader
from slowstep.analyses.batches.producers import ACCOUNT, Fetches, WaitParts, divide_waits, find_fetches
from slowstep.analyses.batches.sampler import SamplerTime, divide_sampler_time
from slowstep.analyses.batches.step_inputs import find_step_bytes
from slowstep.analyses.batches.transfer import with_held_transfers
from slowstep.analyses.compute.before_update import find_before_update
from slowstep.analyses.compute.between_forwards import find_between_forwards
from slowstep.analyses.compute.blocked import find_blocked
from slowstep.analyses.compute.compute_topic import ComputeTopic
from slowstep.analyses.compute.fixed_cost import FixedCost, find_fixed_cost
from slowstep.analyses.compute.forward_counts import at_usual_counts
from slowstep.analyses.compute.in_backward import find_in_backward
from slowstep.analyses.compute.work import Work, find_work
from slowstep.analyses.input.fetch_function import find_collate_function, find_fetch_function
from slowstep.analyses.input.input_facts import find_input_facts
from slowstep.analyses.input.input_topic import InputTopic
from slowstep.analyses.input.loop_input import find_loop_input
from slowstep.analyses.input.prefetch_threads import find_prefetch_threads
from slowstep.analyses.input.rebuilt import find_rebuilt_input
from slowstep.analyses.ledger.captured_ledger import with_captured
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.recording_ledger import build_ledger
from slowstep.analyses.ledger.saves import Saves, find_saves
from slowstep.analyses.machine.load import Load, find_load, without_strangers
from slowstep.analyses.machine.machine import Machine, find_machine
from slowstep.analyses.machine.machine_topic import MachineTopic, Pace
from slowstep.analyses.machine.own_cost import OwnCost, find_own_cost
from slowstep.analyses.measurements import CapturedWindow, Measurements
from slowstep.analyses.over_time.outgrown import find_outgrown
from slowstep.analyses.over_time.over_time import OverTime, find_over_time
from slowstep.analyses.over_time.pace import find_machine_pace
from slowstep.analyses.python.calls import Function
from slowstep.analyses.python.concurrent_threads import ConcurrentThreads, find_concurrent_threads
from slowstep.analyses.python.functions import Files, Stacks, files_of, read_stacks
from slowstep.analyses.python.garbage import Garbage, find_garbage
from slowstep.analyses.python.python_topic import PythonTopic
from slowstep.analyses.sharing.sharing import STAGE as SHARING
from slowstep.analyses.sharing.sharing import Sharing, concurrent_trainings, cores_of_one, find_sharing, load_beside_launchers
from slowstep.analyses.steps.captures import Capture, find_capture
from slowstep.analyses.steps.loader_changes import find_loader_changes
from slowstep.analyses.steps.steps import Floats, Steps, find_steps
from slowstep.analyses.steps.suspensions import Suspensions, find_suspensions
from slowstep.analyses.steps.trainer import Trainer, find_trainer
from slowstep.analyses.steps.training_topic import TrainingTopic
from slowstep.errors import SlowstepError
from slowstep.faults import Attempts, Fault
from slowstep.frameworks._known import all_words, words_of_loop
from slowstep.frameworks._words import Words
from slowstep.parts import PartKind
from slowstep.stages import STAGES
from slowstep.timeline.timeline import Place, Timeline

# What measures a capture; None of one that left no file. Raises UnreadableInput.
MeasureCapture = Callable[[Capture], Measurements | None]


def measure_recording(
    timeline: Timeline, warmup: int | None = None, *, process: int | None = None, measure_capture: MeasureCapture | None = None
) -> Measurements:
    """Measure the training of one process, of that with most updates where none is named. Raises NothingRecorded where nothing trained.

    An analysis that fails by a fault of its own takes only what needs it with it.
    """
    analyses = _RecordingAnalyses(timeline, warmup, process, measure_capture)
    # Whether anything trained is known at once, and whether a profiler captured some of it.
    _ = analyses.steps
    makers = MAKERS if not analyses.has_captured else {"captured": lambda analyses: analyses.captured, **MAKERS}
    return Measurements({topic: partial(make, analyses) for topic, make in makers.items()}, analyses.attempt.faults)


class _RecordingAnalyses:
    """The analyses of one training of a recording: what one finds is kept for the others that need it."""

    def __init__(self, timeline: Timeline, warmup: int | None, process: int | None, measure_capture: MeasureCapture | None = None) -> None:
        self.attempt = Attempts()
        self._timeline, self._warmup, self._process, self._measure_capture = timeline, warmup, process, measure_capture

    def training_topic(self) -> TrainingTopic:
        """Whose loop trains."""
        return TrainingTopic(words=self.attempt(_words, self._timeline, self.trainer))

    def input_topic(self) -> InputTopic:
        """Who makes batches."""
        attempt, timeline, trainer, steps = self.attempt, self._timeline, self.trainer, self.steps
        fetch_function, timed_fetches = attempt.several(2, _fetch_function, timeline, self.producers, trainer, self.made_by_loader)
        return InputTopic(
            facts=attempt(find_input_facts, timeline, trainer, steps),
            loader=self.loader,
            loader_changes=attempt(find_loader_changes, timeline, trainer, steps),
            demand=self.demand,
            counted=self.counted,
            unmatched_share=attempt(_unmatched_share, self.waits, steps),
            filling_ns=self.filling,
            made_by_loader=self.made_by_loader,
            fetch_function=fetch_function,
            collate_function=attempt(find_collate_function, timeline, self.producers, self.loader),
            timed_fetches=timed_fetches,
            held_transfer_share=attempt(_held_transfer_share, self.waits),
            sampler_time=self.sampler_time,
            rebuilt=attempt(find_rebuilt_input, trainer, steps, self.ledger),
            loop_input=attempt(find_loop_input, timeline, trainer, self.ledger),
            prefetch_threads=attempt(find_prefetch_threads, timeline, trainer, steps, self.concurrent_threads),
        )

    def compute_topic(self) -> ComputeTopic:
        """The steps' own work."""
        attempt, timeline, trainer, steps = self.attempt, self._timeline, self.trainer, self.steps
        return ComputeTopic(
            device=self.device,
            work=self.work,
            fixed_cost=attempt(_fixed_cost, trainer, steps, self.ledger, self.load),
            trainer_cpu_ns=self.trainer_cpu_ns,
            before_update=attempt(find_before_update, trainer, steps, self.stacks),
            in_backward=attempt(find_in_backward, trainer, steps, self.stacks),
            blocked=attempt(
                find_blocked, trainer, steps, self.ledger, self.stacks, self.demand, self.resources, self.load, self.trainer_cpu_ns
            ),
            between_forwards=attempt(find_between_forwards, timeline, trainer, steps, self.ledger, self.stacks),
        )

    def machine_topic(self) -> MachineTopic:
        """What the training gets of its machine."""
        attempt, timeline, trainer, steps = self.attempt, self._timeline, self.trainer, self.steps
        return MachineTopic(
            resources=attempt(_beside_load, self.resources, self.load),
            load=self.load,
            cores=attempt(_cores_of_one, timeline, trainer, steps),
            delay_ns=attempt(_delay_ns, self.ledger, steps),
            pace=attempt(_pace, self.even, trainer, steps, self.fetches, self.waits),
            stopped=attempt(_stopped, self.suspensions, trainer),
            own_cost=attempt(_own_cost, timeline, trainer, steps, self.capture),
        )

    def saves_topic(self) -> Saves:
        """Checkpoints."""
        return self.attempt(find_saves, self.trainer, self.steps, self.ledger)

    def over_time_topic(self) -> OverTime:
        """What is not in every step."""
        return self.attempt(
            find_over_time,
            self._timeline,
            self.trainer,
            self.steps,
            self.ledger,
            self.even,
            self.fetches,
            self.waits,
            self.stacks,
            self.filling,
        )

    def after_update_topic(self) -> AfterUpdateTopic:
        """What runs after updates."""
        return AfterUpdateTopic(
            gaps=self.gaps,
            gap_lines=self.gap_lines,
            activities=self.attempt(_activities, self._timeline, self.trainer),
            outgrown=self.attempt(find_outgrown, self.ledger, self.steps, self.trainer, self.gaps),
        )

    def python_topic(self) -> PythonTopic:
        """What the interpreter does."""
        return PythonTopic(
            garbage=self.attempt(_garbage, self._timeline, self.trainer, self.steps, self.demand),
            concurrent_threads=self.concurrent_threads,
            has_stacks=self.attempt(_has_stacks, self.stacks),
            files=self.attempt(_files, self.gaps, self.trainer, self.stacks),
        )

    def sharing_topic(self) -> Sharing:
        """What ranks share."""
        return self.attempt(_sharing, self._timeline, self.trainer, self.steps, self.ledger, self.device)

    @cached_property
    def first_trainer(self) -> Trainer:
        """Who trains, as far as that is known before its input is."""
        return self.attempt(find_trainer, self._timeline, self._process)

    @cached_property
    def trainer(self) -> Trainer:
        """Who trains."""
        return self.attempt(with_asked_samples, self.first_trainer, self.fetches, self.waits)

    @cached_property
    def suspensions(self) -> Suspensions:
        """When the process stood still."""
        return self.attempt(find_suspensions, self._timeline, self.first_trainer)

    @cached_property
    def fetches(self) -> Fetches:
        """The making of batches."""
        return self.attempt(find_fetches, self._timeline, self.first_trainer, self.suspensions, self.stacks)

    @cached_property
    def stacks(self) -> Stacks:
        """Stacks of the training thread."""
        return self.attempt(_stacks, self._timeline, self.first_trainer)

    @cached_property
    def _waits_and_sampler(self) -> tuple[WaitParts, SamplerTime | None]:
        waits = self.attempt(divide_waits, self._timeline, self.first_trainer, self.fetches)
        return self.attempt.several(2, _sampler_time, self._timeline, self.first_trainer, self.fetches, waits, self.stacks)

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
        return self.attempt(_steps, self._timeline, self.trainer, self.suspensions, self._warmup, self.capture)

    @cached_property
    def work(self) -> Work:
        """The steps' own work."""
        return self.attempt(find_work, self._timeline, self.trainer, self.steps, self.stacks)

    @cached_property
    def gaps(self) -> TimedGaps | None:
        """Calls that were timed after updates, of a loop that is fed."""
        return self.attempt(_timed_gaps, self._timeline, self.trainer)

    @cached_property
    def gap_lines(self) -> TimedLines | None:
        """Lines that were timed after updates, of a loop that is not."""
        return self.attempt(_timed_lines, self._timeline, self.trainer)

    @cached_property
    def concurrent_threads(self) -> ConcurrentThreads:
        """Other threads of the process."""
        return self.attempt(find_concurrent_threads, self._timeline, self.trainer, self.steps)

    @cached_property
    def device(self) -> str:
        """Where the parameters are."""
        return self.attempt(_device, self.trainer)

    @cached_property
    def counted(self) -> CountedWork | None:
        """What threads of the framework did, where it keeps sums only."""
        return self.attempt(find_counted, self._timeline, self.trainer, self.steps)

    @cached_property
    def ledger(self) -> Ledger:
        """The account of the window."""
        return self.attempt(
            _ledger,
            self._timeline,
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
        return self.attempt(find_made_by_loader, self._timeline, self.trainer, self.waits, self.steps)

    @cached_property
    def loader(self) -> Loader | None:
        """The loader that feeds the training."""
        return self.attempt(find_loader, self._timeline, self.trainer)

    @cached_property
    def producers(self) -> list[int]:
        """The processes that make its batches."""
        return self.attempt(producers_of, self._timeline, self.trainer, self.fetches, self.loader)

    @cached_property
    def demand(self) -> Demand:
        """What making a step's batches takes."""
        return self.attempt(find_demand, self._timeline, self.trainer, self.fetches, self.steps, self.loader)

    @cached_property
    def filling(self) -> Floats:
        """Waits per step for an iterator's first batch."""
        return self.attempt(_filling, self.waits, self.steps)

    @cached_property
    def trainer_cpu_ns(self) -> float | None:
        """CPU time of the training thread per step."""
        return self.attempt(_cpu_per_step, self._timeline, self.trainer, self.steps, self.suspensions)

    @cached_property
    def load(self) -> Load:
        """Who uses the cores."""
        return self.attempt(_load, self._timeline, self.steps, self.trainer, self.trainer_cpu_ns)

    @cached_property
    def resources(self) -> Machine:
        """What was read of the machine."""
        return self.attempt(find_machine, self._timeline, self.trainer, self.steps, self.suspensions, self.device)


# What measures each topic, in the order in which they are measured where all are.
MAKERS: Final[Mapping[str, Callable[[_RecordingAnalyses], Any]]] = {
    "trainer": lambda analyses: analyses.trainer,
    "steps": lambda analyses: analyses.steps,
    "training": _RecordingAnalyses.training_topic,
    "ledger": lambda analyses: analyses.completed_ledger,
    "input": _RecordingAnalyses.input_topic,
    "saves": _RecordingAnalyses.saves_topic,
    "compute": _RecordingAnalyses.compute_topic,
    "machine": _RecordingAnalyses.machine_topic,
    "over_time": _RecordingAnalyses.over_time_topic,
    "after_update": _RecordingAnalyses.after_update_topic,
    "python": _RecordingAnalyses.python_topic,
    "sharing": _RecordingAnalyses.sharing_topic,
}


def _captured(capture: Capture, measure: MeasureCapture, faults: list[Fault]) -> CapturedWindow:
    """The captured steps, measured; `faults` grows with those of that."""
    try:
        m = measure(capture)
    except (SlowstepError, OSError) as error:
        return CapturedWindow(capture=capture, unreadable=str(error) or type(error).__name__)
    faults += () if m is None else m.faults
    return CapturedWindow(capture=capture, m=m)


def _completed(ledger: Ledger, captured: CapturedWindow) -> Ledger:
    return ledger if captured.device is None else with_captured(ledger, captured.device.ledger)


def _words(timeline: Timeline, trainer: Trainer) -> Words:
    """Of the framework whose loop trains, its loader's where it is another framework's, and where this script makes what they speak of."""
    words = words_of_loop((frame.file for frame in trainer.way_to_update), trainer.facts.framework)
    fed = words.fed_by(all_words().get(find_loaders_framework(timeline, trainer) or "", words))
    return fed.placed(trainer.spans["name"].drop_nulls().unique().to_list())


def _steps(timeline: Timeline, trainer: Trainer, suspensions: Suspensions, warmup: int | None, capture: Capture | None) -> Steps:
    return find_steps(trainer, timeline.table("totals"), suspensions, warmup, capture=capture)


def _timed_gaps(timeline: Timeline, trainer: Trainer) -> TimedGaps | None:
    return find_timed_gaps(timeline, trainer.process) if trainer.is_fed else None


def _timed_lines(timeline: Timeline, trainer: Trainer) -> TimedLines | None:
    return None if trainer.is_fed else find_timed_lines(trainer, times_of_functions(timeline, trainer.process))


def _activities(timeline: Timeline, trainer: Trainer) -> dict[Place, Activity]:
    return find_activities(timeline, trainer.process)


def _stacks(timeline: Timeline, trainer: Trainer) -> Stacks:
    return read_stacks(timeline, trainer.process, trainer.thread)


def _sampler_time(
    timeline: Timeline, trainer: Trainer, fetches: Fetches, waits: WaitParts, stacks: Stacks
) -> tuple[WaitParts, SamplerTime | None]:
    """The division of the waits, and what the loader's sampler does in them."""
    waits, sampler_time = divide_sampler_time(timeline, trainer.process, waits, stacks)
    return with_held_transfers(timeline, trainer.process, fetches, waits), sampler_time


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
    return build_ledger(timeline, trainer, steps, waits, stacks, timed, device=device, beside_cores=beside.cores, counted=counted)


def _fetch_function(
    timeline: Timeline, producers: list[int], trainer: Trainer, made: tuple[MadeByLoader, ...]
) -> tuple[Function | None, int]:
    return find_fetch_function(timeline, producers, trainer.process, made)


def _unmatched_share(waits: WaitParts, steps: Steps) -> float:
    low, high = steps.bounds_ns
    asked = (waits.start_ns >= low) & (waits.start_ns < high)
    wait_ns = (waits.end_ns - waits.start_ns)[asked].astype(np.float64)
    return float(wait_ns[~waits.matched[asked]].sum() / steps.length_ns)


def _held_transfer_share(waits: WaitParts) -> float:
    return waits.held_ns / max(float(waits.parts.sum()), 1.0)


def _has_stacks(stacks: Stacks) -> bool:
    return len(stacks.time_ns) > 0


def _load(timeline: Timeline, steps: Steps, trainer: Trainer, trainer_cpu_ns: float | None) -> Load:
    trainer_cores = None if trainer_cpu_ns is None else trainer_cpu_ns * steps.count / steps.length_ns
    load = load_beside_launchers(timeline, find_load(timeline.table("readings"), steps.edges_ns, _cores(trainer)))
    return without_strangers(load, trainer_cores)


def _fixed_cost(trainer: Trainer, steps: Steps, ledger: Ledger, load: Load) -> FixedCost:
    return find_fixed_cost(trainer, steps, ledger, busy=load.busy)


def _stopped(suspensions: Suspensions, trainer: Trainer) -> tuple[int, float]:
    return suspensions.within(int(trainer.update_end_ns[0]), int(trainer.update_end_ns[-1]))


def _delay_ns(ledger: Ledger, steps: Steps) -> Floats:
    return sum((ledger.of(stage, PartKind.CORE_WAIT) for stage in STAGES), np.zeros(steps.count))


def _cores_of_one(timeline: Timeline, trainer: Trainer, steps: Steps) -> float | None:
    return cores_of_one(timeline, trainer, _cores(trainer), concurrent_trainings(timeline, trainer.process, *steps.bounds_ns))


def _own_cost(timeline: Timeline, trainer: Trainer, steps: Steps, capture: Capture | None) -> OwnCost | None:
    return find_own_cost(timeline, trainer, steps.total, capture)


def _beside_load(machine: Machine, load: Load) -> Machine:
    return replace(machine, tree_cores=None) if load.tree_cores is None else machine


def _files(gaps: TimedGaps | None, trainer: Trainer, stacks: Stacks) -> Files:
    return {**timed_files(gaps, trainer), **files_of(stacks, trainer.facts.script)}


def _sharing(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger, device: str) -> Sharing:
    return find_sharing(timeline, trainer, steps, ledger.of(SHARING), device=device)


def _garbage(timeline: Timeline, trainer: Trainer, steps: Steps, demand: Demand) -> Garbage:
    return find_garbage(timeline, trainer, steps, demand.collecting_ns or 0.0)


def _pace(even: Ledger, trainer: Trainer, steps: Steps, fetches: Fetches, waits: WaitParts) -> Pace:
    return find_machine_pace(even, find_step_bytes(trainer, steps, fetches, waits))


def _filling(waits: WaitParts, steps: Steps) -> Floats:
    step = np.searchsorted(steps.edges_ns, waits.start_ns, side="right") - 1
    mine = waits.first & (step >= 0) & (step < steps.stretches)
    made = waits.parts[mine, : len(ACCOUNT)].sum(axis=1)
    return np.bincount(step[mine], weights=made, minlength=steps.stretches).astype(np.float64)[~steps.excluded]


def _cores(trainer: Trainer) -> float | None:
    allowed, quota = trainer.facts.cores_allowed, trainer.facts.cpu_quota
    known = [float(limit) for limit in (allowed, quota) if limit]
    return min(known) if known else None


def _device(trainer: Trainer) -> str:
    """Where the parameters are; the processor where nothing says otherwise."""
    notes = trainer.facts.notes
    own = next((note.get("device") for note in notes["optimizers"] if note.get("id") == trainer.optimizer), None)
    return str(own or ("cuda" if notes["facts"].get("cuda_available") else "cpu"))


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
