"""Everything that rules may know, measured once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.asked_samples import with_asked_samples
from slowstep.analyses.before_update import BeforeUpdate, find_before_update
from slowstep.analyses.between_forwards import BetweenForwards, find_between_forwards
from slowstep.analyses.blocked import Blocked, find_blocked
from slowstep.analyses.calls import Function
from slowstep.analyses.captures import Capture, find_capture
from slowstep.analyses.charging import build_ledger
from slowstep.analyses.delivery import with_held_deliveries
from slowstep.analyses.demand import Demand, find_demand, producers_of
from slowstep.analyses.drawing import Drawing, divide_drawing
from slowstep.analyses.fetch_function import find_collate_function, find_fetch_function
from slowstep.analyses.fixed_cost import FixedCost, find_fixed_cost
from slowstep.analyses.forward_counts import at_usual_counts
from slowstep.analyses.functions import Stacks, files_of, read_stacks
from slowstep.analyses.gap_parts import timed_files
from slowstep.analyses.garbage import Garbage, find_garbage
from slowstep.analyses.in_backward import InBackward, find_in_backward
from slowstep.analyses.input_facts import InputFacts, find_input_facts
from slowstep.analyses.ledger import CORE, Ledger, Part
from slowstep.analyses.load import Load, find_load, without_strangers
from slowstep.analyses.loader import Loader, find_loader
from slowstep.analyses.loader_changes import LoaderChange, find_loader_changes
from slowstep.analyses.loop_input import LoopInput, find_loop_input
from slowstep.analyses.machine import Machine, find_machine
from slowstep.analyses.made_by_loader import MadeByLoader, find_made_by_loader
from slowstep.analyses.outgrown import find_outgrown
from slowstep.analyses.over_time import OverTime, find_over_time
from slowstep.analyses.own_cost import OwnCost, find_own_cost
from slowstep.analyses.pace import find_pace_spread
from slowstep.analyses.prefetch_threads import PrefetchThreads, find_prefetch_threads
from slowstep.analyses.producers import ACCOUNT, Fetches, WaitParts, divide_waits, find_fetches
from slowstep.analyses.saves import Saves, find_saves
from slowstep.analyses.sharing import STAGE as SHARING
from slowstep.analyses.sharing import Sharing, cores_of_one, find_sharing, load_beside_launchers, trainings_beside
from slowstep.analyses.step_inputs import find_step_bytes
from slowstep.analyses.steps import Floats, Steps, find_steps
from slowstep.analyses.stops import Stops, find_stops
from slowstep.analyses.threads_beside import ThreadsBeside, find_threads_beside
from slowstep.analyses.trainer import Trainer, find_trainer
from slowstep.analyses.work import Work, find_work
from slowstep.frameworks._known import words_of_loop
from slowstep.frameworks._words import Words
from slowstep.stages import STAGES
from slowstep.timeline.timeline import Timeline


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurements:
    """One training as measured: steps, ledger, producers, functions, load. Rules read this and nothing else."""

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
    held_delivery_share: float  # of all waits for input, in which a batch was made, and its worker computed instead of handing it over
    drawing: Drawing | None  # what the loader's sampler does on the training thread
    saves: Saves
    fixed_cost: FixedCost
    load: Load
    stopped: tuple[int, float]  # how often the process stood still since the first update, and for how many seconds
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
    files: Mapping[str, str]  # file of each function of the user's, by what the ledger calls it
    sharing: Sharing
    garbage: Garbage
    threads_beside: ThreadsBeside
    prefetch_threads: PrefetchThreads | None  # of them those that make batches
    pace_spread: float  # of the machine, between eighths of the window: standard deviation of a logarithm
    capture: Capture | None = None  # of a few steps, by a profiler

    @property
    def words(self) -> Words:
        """The words of the framework that trains, in which fixes are written."""
        return words_of_loop(frame.file for frame in self.trainer.way_to_update)

    @property
    def step_ns(self) -> Floats:
        """Length of each step."""
        return self.steps.duration_ns.astype(np.float64)


def measure(timeline: Timeline, warmup: int | None = None, *, process: int | None = None) -> Measurements:
    """Measure the training of one process, of that with most updates where none is named. Raises NothingRecorded where nothing trained."""
    trainer = find_trainer(timeline, process)
    stops = find_stops(timeline, trainer)
    fetches = find_fetches(timeline, trainer, stops)
    stacks = read_stacks(timeline, trainer.process, trainer.thread)
    waits, drawing = _waits(timeline, trainer, fetches, stacks)
    trainer = with_asked_samples(trainer, fetches, waits)
    capture = find_capture(trainer)
    steps = find_steps(trainer, timeline.table("totals"), stops, warmup, capture=capture)
    work = find_work(timeline, trainer, steps, stacks)
    threads_beside = find_threads_beside(timeline, trainer, steps)
    gaps, device = work.gaps or work.gap_lines, _device(trainer)
    ledger = build_ledger(timeline, trainer, steps, waits, stacks, gaps, device=device, beside_cores=threads_beside.cores)
    even = at_usual_counts(ledger, trainer, steps)
    made_by_loader = find_made_by_loader(timeline, trainer, waits, steps)
    loader = find_loader(timeline, trainer)
    producers = producers_of(timeline, trainer, fetches, loader)
    fetch_function, timed_fetches = find_fetch_function(timeline, producers, trainer.process, made_by_loader)
    asked, asked_ns = _asked(waits, steps)
    filling = _filling(waits, steps)
    trainer_cpu_ns = _cpu_per_step(timeline, trainer, steps, stops)
    load = _load(timeline, steps, _cores(trainer), trainer_cpu_ns)
    machine = find_machine(timeline, trainer, steps, stops, device)
    demand = find_demand(timeline, trainer, fetches, steps, loader)
    return Measurements(
        steps=steps,
        ledger=ledger,
        loader=loader,
        loader_changes=find_loader_changes(timeline, trainer, steps),
        demand=demand,
        ready=waits.ready[asked],
        wait_ns=asked_ns,
        unmatched_share=float(asked_ns[~waits.matched[asked]].sum() / steps.length_ns),
        filling_ns=filling,
        made_by_loader=made_by_loader,
        fetch_function=fetch_function,
        collate_function=find_collate_function(timeline, producers, loader),
        timed_fetches=timed_fetches,
        held_delivery_share=waits.held_ns / max(float(waits.parts.sum()), 1.0),
        drawing=drawing,
        saves=find_saves(trainer, steps, ledger),
        fixed_cost=find_fixed_cost(trainer, steps, ledger, busy=load.busy),
        load=load,
        stopped=stops.within(int(trainer.update_end_ns[0]), int(trainer.update_end_ns[-1])),
        trainer_cpu_ns=trainer_cpu_ns,
        delay_ns=sum((ledger.of(stage, CORE) for stage in STAGES), np.zeros(steps.count)),
        cores=cores_of_one(timeline, trainer, _cores(trainer), trainings_beside(timeline, trainer.process, *steps.bounds_ns)),
        device=device,
        has_stacks=len(stacks.time_ns) > 0,
        before_update=find_before_update(trainer, steps, stacks),
        in_backward=find_in_backward(trainer, steps, stacks),
        blocked=find_blocked(trainer, steps, ledger, stacks, demand, machine, load, trainer_cpu_ns),
        loop_input=find_loop_input(timeline, trainer, ledger),
        between_forwards=find_between_forwards(timeline, trainer, steps, ledger, stacks),
        own_cost=find_own_cost(timeline, trainer, steps.total, capture),
        capture=capture,
        over_time=find_over_time(timeline, trainer, steps, ledger, even, fetches, waits, stacks, filling),
        trainer=trainer,
        machine=replace(machine, tree_cores=None) if load.tree_cores is None else machine,
        input=find_input_facts(timeline, trainer, steps),
        work=work,
        outgrown=find_outgrown(ledger, steps, trainer, work.gaps),
        files=timed_files(work.gaps, trainer) | files_of(stacks, trainer.facts.script),
        sharing=find_sharing(timeline, trainer, steps, ledger.of(SHARING), device=device),
        garbage=find_garbage(timeline, trainer, steps, demand.collecting_ns or 0.0),
        threads_beside=threads_beside,
        prefetch_threads=find_prefetch_threads(timeline, trainer, steps, threads_beside),
        pace_spread=find_pace_spread(even, find_step_bytes(trainer, steps, fetches, waits)),
    )


def _waits(timeline: Timeline, trainer: Trainer, fetches: Fetches, stacks: Stacks) -> tuple[WaitParts, Drawing | None]:
    """The division of the waits, and what the loader's sampler does in them."""
    waits, drawing = divide_drawing(timeline, trainer.process, divide_waits(timeline, trainer, fetches), stacks)
    return with_held_deliveries(timeline, trainer.process, fetches, waits), drawing


def _asked(waits: WaitParts, steps: Steps) -> tuple[NDArray[np.bool_], Floats]:
    """Which requests for input lie in the window, and the length of each of those."""
    low, high = steps.bounds_ns
    asked = (waits.start_ns >= low) & (waits.start_ns < high)
    return asked, (waits.end_ns - waits.start_ns)[asked].astype(np.float64)


def _load(timeline: Timeline, steps: Steps, cores: float | None, trainer_cpu_ns: float | None) -> Load:
    trainer_cores = None if trainer_cpu_ns is None else trainer_cpu_ns * steps.count / steps.length_ns
    load = load_beside_launchers(timeline, find_load(timeline.table("readings"), steps.edges_ns, cores))
    return without_strangers(load, trainer_cores)


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


def _cpu_per_step(timeline: Timeline, trainer: Trainer, steps: Steps, stops: Stops) -> float | None:
    marks = timeline.table("cpu_marks").filter(
        pl.col("process") == trainer.process,
        pl.col("thread") == trainer.thread,
        pl.col("time_ns").is_between(*steps.bounds_ns),
    )
    marks = marks.sort("time_ns")
    if marks.height < 2 or marks["time_ns"][0] == marks["time_ns"][-1]:
        return None
    first, last = marks.row(0, named=True), marks.row(-1, named=True)
    _, stopped_s = stops.within(first["time_ns"], last["time_ns"])
    rate = (last["cpu_ns"] - first["cpu_ns"]) / (last["time_ns"] - first["time_ns"] - stopped_s * 1e9)
    return float(rate * steps.length_ns / steps.count)
