"""Everything that rules may know, measured once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.accounted import Kind
from slowstep.analyses.after_update.gap_parts import timed_files
from slowstep.analyses.batches.asked_samples import with_asked_samples
from slowstep.analyses.batches.counted_work import CountedWork, find_counted
from slowstep.analyses.batches.demand import Demand, find_demand, producers_of
from slowstep.analyses.batches.loader import Loader, find_loader
from slowstep.analyses.batches.made_by_loader import MadeByLoader, find_made_by_loader
from slowstep.analyses.batches.producers import ACCOUNT, Fetches, WaitParts, divide_waits, find_fetches
from slowstep.analyses.batches.step_inputs import find_step_bytes
from slowstep.analyses.batches.transfer import with_held_transfers
from slowstep.analyses.compute.before_update import BeforeUpdate, find_before_update
from slowstep.analyses.compute.between_forwards import BetweenForwards, find_between_forwards
from slowstep.analyses.compute.blocked import Blocked, find_blocked
from slowstep.analyses.compute.fixed_cost import FixedCost, find_fixed_cost
from slowstep.analyses.compute.forward_counts import at_usual_counts
from slowstep.analyses.compute.in_backward import InBackward, find_in_backward
from slowstep.analyses.compute.work import Work, find_work
from slowstep.analyses.input.fetch_function import find_collate_function, find_fetch_function
from slowstep.analyses.input.input_facts import InputFacts, find_input_facts
from slowstep.analyses.input.loop_input import LoopInput, find_loop_input
from slowstep.analyses.input.prefetch_threads import PrefetchThreads, find_prefetch_threads
from slowstep.analyses.input.sampler import SamplerTime, divide_sampler_time
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.recording_ledger import build_ledger
from slowstep.analyses.ledger.saves import Saves, find_saves
from slowstep.analyses.machine.load import Load, find_load, without_strangers
from slowstep.analyses.machine.machine import Machine, find_machine
from slowstep.analyses.machine.own_cost import OwnCost, find_own_cost
from slowstep.analyses.over_time.outgrown import find_outgrown
from slowstep.analyses.over_time.over_time import OverTime, find_over_time
from slowstep.analyses.over_time.pace import find_pace_spread
from slowstep.analyses.python.calls import Function
from slowstep.analyses.python.concurrent_threads import ConcurrentThreads, find_concurrent_threads
from slowstep.analyses.python.functions import Files, Stacks, files_of, read_stacks
from slowstep.analyses.python.garbage import Garbage, find_garbage
from slowstep.analyses.sharing.sharing import STAGE as SHARING
from slowstep.analyses.sharing.sharing import Sharing, concurrent_trainings, cores_of_one, find_sharing, load_beside_launchers
from slowstep.analyses.steps.captures import Capture, find_capture
from slowstep.analyses.steps.loader_changes import LoaderChange, find_loader_changes
from slowstep.analyses.steps.steps import Floats, Steps, find_steps
from slowstep.analyses.steps.suspensions import Suspensions, find_suspensions
from slowstep.analyses.steps.trainer import Trainer, find_trainer
from slowstep.faults import Attempts, Fault, MayLack
from slowstep.frameworks._known import words_of_loop
from slowstep.frameworks._words import Words
from slowstep.parts import Part, PartKind
from slowstep.stages import STAGES
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurements(MayLack):
    """One training as measured: steps, ledger, producers, functions, load. Rules read this and nothing else.

    Reading what an analysis of `faults` should have found raises `Faulty`: all other measurements stand.
    """

    steps: Steps
    ledger: Ledger
    loader: Loader | None
    loader_changes: tuple[LoaderChange, ...]  # in the whole recording
    demand: Demand
    ready: Floats  # batches that were ready at each request in the window, NaN unknown
    wait_ns: Floats  # length of each of those requests
    unmatched_share: float  # of the window, in waits for batches whose producer is unknown
    filling_ns: Floats  # waits per step for the making of an iterator's first batch: no number of workers makes it ahead
    made_by_loader: tuple[MadeByLoader, ...]  # what making batches takes, apart for each loader
    fetch_function: Function | None  # that holds most of the producers' time outside collate
    collate_function: Function | None  # of the user's, that holds most of the collate function which calls it
    timed_fetches: int  # batches in whose making calls were timed, which is how that function is known
    held_transfer_share: float  # of all waits for input, in which a batch was made, and its worker computed instead of handing it over
    sampler_time: SamplerTime | None  # what the loader's sampler does on the training thread
    saves: Saves
    fixed_cost: FixedCost
    load: Load
    stopped: tuple[int, float]  # how often the process was suspended since the first update, and for how many seconds
    trainer_cpu_ns: float | None  # CPU time of the training thread per step
    delay_ns: Floats  # run-queue delay of the training thread per step
    cores: float | None  # that this training may use: affinity and quota, divided among the trainings that run at the same time
    device: str  # where the anchor optimizer's parameters are
    has_stacks: bool
    before_update: BeforeUpdate | None  # what the user's code does between backward and update
    in_backward: InBackward | None  # what hooks of the user's do inside backward
    blocked: Blocked | None  # inside the steps' own work; None where that is not known
    loop_input: LoopInput | None  # where the loop makes its batches itself
    between_forwards: BetweenForwards  # in steps of several forwards and no loader
    own_cost: OwnCost | None
    over_time: OverTime  # what is not in every step
    trainer: Trainer
    machine: Machine  # beside the training
    input: InputFacts
    work: Work
    outgrown: frozenset[Part]  # parts that take far longer than when calls were timed in them
    files: Files  # of the user's functions
    sharing: Sharing
    garbage: Garbage
    concurrent_threads: ConcurrentThreads
    prefetch_threads: PrefetchThreads | None  # of them those that make batches
    pace_spread: float  # of the machine, between eighths of the window: standard deviation of a logarithm
    capture: Capture | None = None  # of a few steps, by a profiler
    counted: CountedWork | None = None  # of threads of the framework, where it keeps sums only
    faults: tuple[Fault, ...] = ()  # errors of slowstep's own in its analyses

    @property
    def words(self) -> Words:
        """The words of the framework that trains, in which fixes are written."""
        return words_of_loop((frame.file for frame in self.trainer.way_to_update), self.trainer.facts.framework)

    @property
    def kind(self) -> Kind:
        """A run as it was recorded."""
        return "recording"

    @property
    def step_ns(self) -> Floats:
        """Length of each step."""
        return self.steps.duration_ns.astype(np.float64)

    @property
    def mean_step_ns(self) -> float:
        """Length of the mean step."""
        return float(self.step_ns.mean())

    def share(self, stage: str) -> float:
        """Share of the window charged to a stage."""
        return self.ledger.share(stage)

    def share_of(self, *parts: Part) -> float:
        """Share of the window charged to some parts together."""
        return self.ledger.share_of(*parts)


def measure(timeline: Timeline, warmup: int | None = None, *, process: int | None = None) -> Measurements:
    """Measure the training of one process, of that with most updates where none is named. Raises NothingRecorded where nothing trained.

    An analysis that fails by a fault of its own takes only what needs it with it.
    """
    attempt = Attempts()
    trainer = attempt(find_trainer, timeline, process)
    suspensions = attempt(find_suspensions, timeline, trainer)
    fetches = attempt(find_fetches, timeline, trainer, suspensions)
    stacks = attempt(_stacks, timeline, trainer)
    waits = attempt(divide_waits, timeline, trainer, fetches)
    waits, sampler_time = attempt.several(2, _sampler_time, timeline, trainer, fetches, waits, stacks)
    trainer = attempt(with_asked_samples, trainer, fetches, waits)
    capture = attempt(find_capture, trainer)
    steps = attempt(find_steps, trainer, timeline.table("totals"), suspensions, warmup, capture=capture)
    work = attempt(find_work, timeline, trainer, steps, stacks)
    concurrent_threads = attempt(find_concurrent_threads, timeline, trainer, steps)
    device = attempt(_device, trainer)
    counted = attempt(find_counted, timeline, trainer, steps)
    ledger = attempt(_ledger, timeline, trainer, steps, waits, stacks, work, concurrent_threads, device, counted)
    even = attempt(at_usual_counts, ledger, trainer, steps)
    made_by_loader = attempt(find_made_by_loader, timeline, trainer, waits, steps)
    loader = attempt(find_loader, timeline, trainer)
    producers = attempt(producers_of, timeline, trainer, fetches, loader)
    fetch_function, timed_fetches = attempt.several(2, _fetch_function, timeline, producers, trainer, made_by_loader)
    asked, wait_ns = attempt.several(2, _asked, waits, steps)
    filling = attempt(_filling, waits, steps)
    trainer_cpu_ns = attempt(_cpu_per_step, timeline, trainer, steps, suspensions)
    load = attempt(_load, timeline, steps, trainer, trainer_cpu_ns)
    machine = attempt(find_machine, timeline, trainer, steps, suspensions, device)
    demand = attempt(find_demand, timeline, trainer, fetches, steps, loader)
    found = Measurements(
        steps=steps,
        ledger=ledger,
        loader=loader,
        loader_changes=attempt(find_loader_changes, timeline, trainer, steps),
        demand=demand,
        ready=attempt(_ready, waits, asked),
        wait_ns=wait_ns,
        unmatched_share=attempt(_unmatched_share, waits, asked, wait_ns, steps),
        filling_ns=filling,
        made_by_loader=made_by_loader,
        fetch_function=fetch_function,
        collate_function=attempt(find_collate_function, timeline, producers, loader),
        timed_fetches=timed_fetches,
        held_transfer_share=attempt(_held_transfer_share, waits),
        sampler_time=sampler_time,
        saves=attempt(find_saves, trainer, steps, ledger),
        fixed_cost=attempt(_fixed_cost, trainer, steps, ledger, load),
        load=load,
        stopped=attempt(_stopped, suspensions, trainer),
        trainer_cpu_ns=trainer_cpu_ns,
        delay_ns=attempt(_delay_ns, ledger, steps),
        cores=attempt(_cores_of_one, timeline, trainer, steps),
        device=device,
        has_stacks=attempt(_has_stacks, stacks),
        before_update=attempt(find_before_update, trainer, steps, stacks),
        in_backward=attempt(find_in_backward, trainer, steps, stacks),
        blocked=attempt(find_blocked, trainer, steps, ledger, stacks, demand, machine, load, trainer_cpu_ns),
        loop_input=attempt(find_loop_input, timeline, trainer, ledger),
        between_forwards=attempt(find_between_forwards, timeline, trainer, steps, ledger, stacks),
        own_cost=attempt(_own_cost, timeline, trainer, steps, capture),
        capture=capture,
        counted=counted,
        over_time=attempt(find_over_time, timeline, trainer, steps, ledger, even, fetches, waits, stacks, filling),
        trainer=trainer,
        machine=attempt(_beside_load, machine, load),
        input=attempt(find_input_facts, timeline, trainer, steps),
        work=work,
        outgrown=attempt(_outgrown, ledger, steps, trainer, work),
        files=attempt(_files, work, trainer, stacks),
        sharing=attempt(_sharing, timeline, trainer, steps, ledger, device),
        garbage=attempt(_garbage, timeline, trainer, steps, demand),
        concurrent_threads=concurrent_threads,
        prefetch_threads=attempt(find_prefetch_threads, timeline, trainer, steps, concurrent_threads),
        pace_spread=attempt(_pace_spread, even, trainer, steps, fetches, waits),
    )
    return found.changed(faults=tuple(attempt.faults))


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
    work: Work,
    beside: ConcurrentThreads,
    device: str,
    counted: CountedWork | None,
) -> Ledger:
    gaps = work.gaps or work.gap_lines
    return build_ledger(timeline, trainer, steps, waits, stacks, gaps, device=device, beside_cores=beside.cores, counted=counted)


def _fetch_function(
    timeline: Timeline, producers: list[int], trainer: Trainer, made: tuple[MadeByLoader, ...]
) -> tuple[Function | None, int]:
    return find_fetch_function(timeline, producers, trainer.process, made)


def _asked(waits: WaitParts, steps: Steps) -> tuple[NDArray[np.bool_], Floats]:
    """Which requests for input lie in the window, and the length of each of those."""
    low, high = steps.bounds_ns
    asked = (waits.start_ns >= low) & (waits.start_ns < high)
    return asked, (waits.end_ns - waits.start_ns)[asked].astype(np.float64)


def _ready(waits: WaitParts, asked: NDArray[np.bool_]) -> Floats:
    return waits.ready[asked]


def _held_transfer_share(waits: WaitParts) -> float:
    return waits.held_ns / max(float(waits.parts.sum()), 1.0)


def _has_stacks(stacks: Stacks) -> bool:
    return len(stacks.time_ns) > 0


def _unmatched_share(waits: WaitParts, asked: NDArray[np.bool_], wait_ns: Floats, steps: Steps) -> float:
    return float(wait_ns[~waits.matched[asked]].sum() / steps.length_ns)


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


def _outgrown(ledger: Ledger, steps: Steps, trainer: Trainer, work: Work) -> frozenset[Part]:
    return find_outgrown(ledger, steps, trainer, work.gaps)


def _files(work: Work, trainer: Trainer, stacks: Stacks) -> Files:
    return {**timed_files(work.gaps, trainer), **files_of(stacks, trainer.facts.script)}


def _sharing(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger, device: str) -> Sharing:
    return find_sharing(timeline, trainer, steps, ledger.of(SHARING), device=device)


def _garbage(timeline: Timeline, trainer: Trainer, steps: Steps, demand: Demand) -> Garbage:
    return find_garbage(timeline, trainer, steps, demand.collecting_ns or 0.0)


def _pace_spread(even: Ledger, trainer: Trainer, steps: Steps, fetches: Fetches, waits: WaitParts) -> float:
    return find_pace_spread(even, find_step_bytes(trainer, steps, fetches, waits))


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
