"""A recording becomes measurements: each topic of what the analyses find (recording_analyses.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from slowstep.analyses.after_update.activities import Activity, find_activities
from slowstep.analyses.after_update.after_update_topic import AfterUpdateTopic
from slowstep.analyses.after_update.gap_parts import timed_files
from slowstep.analyses.after_update.timed_gaps import TimedGaps
from slowstep.analyses.batches.demand import Demand
from slowstep.analyses.batches.loader_identity import find_loaders_framework
from slowstep.analyses.batches.made_by_loader import MadeByLoader
from slowstep.analyses.batches.producers import Fetches, WaitParts
from slowstep.analyses.batches.step_inputs import find_step_bytes
from slowstep.analyses.compute.before_update import find_before_update
from slowstep.analyses.compute.between_forwards import find_between_forwards
from slowstep.analyses.compute.blocked import find_blocked
from slowstep.analyses.compute.compute_topic import ComputeTopic
from slowstep.analyses.compute.dispatched import find_dispatched
from slowstep.analyses.compute.embedding_tables import EmbeddingTables, find_embedding_tables
from slowstep.analyses.compute.fixed_cost import FixedCost, Passes, find_fixed_cost
from slowstep.analyses.compute.in_backward import find_in_backward, runs_python
from slowstep.analyses.compute.narrow_operations import find_narrow_operations
from slowstep.analyses.compute.own_update import find_own_update
from slowstep.analyses.compute.pass_work import PassWork, find_pass_work
from slowstep.analyses.compute.products import WhyUnknown, find_products
from slowstep.analyses.compute.retraces import find_retraces
from slowstep.analyses.compute.unused_gradients import find_unused_gradients
from slowstep.analyses.input.fetch_function import find_collate_function, find_fetch_function
from slowstep.analyses.input.input_facts import find_input_facts
from slowstep.analyses.input.input_topic import InputTopic
from slowstep.analyses.input.loop_input import find_loop_input
from slowstep.analyses.input.padding import find_padding
from slowstep.analyses.input.pipeline import find_pipeline
from slowstep.analyses.input.prefetch_threads import find_prefetch_threads
from slowstep.analyses.input.rebuilt import find_rebuilt_input
from slowstep.analyses.input.stored_reads import find_stored_reads
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.saves import Saves, find_saves
from slowstep.analyses.machine.load import Load
from slowstep.analyses.machine.machine import Machine
from slowstep.analyses.machine.machine_topic import MachineTopic, Pace
from slowstep.analyses.machine.own_cost import OwnCost, find_own_cost
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.outgrown import find_outgrown
from slowstep.analyses.over_time.over_time import OverTime, find_over_time
from slowstep.analyses.over_time.pace import find_machine_pace
from slowstep.analyses.python.calls import TimedFunction, calls_per_body
from slowstep.analyses.python.functions import Files, Stacks, files_of
from slowstep.analyses.python.garbage import Garbage, find_garbage
from slowstep.analyses.python.python_topic import PythonTopic
from slowstep.analyses.recording_analyses import MeasureCapture, RecordingAnalyses
from slowstep.analyses.sharing.sharing import NONE_MISSING, MissingRanks, Sharing, concurrent_trainings, cores_of_one, find_sharing
from slowstep.analyses.sharing.sharing import STAGE as SHARING
from slowstep.analyses.steps.captures import Capture
from slowstep.analyses.steps.loader_changes import find_loader_changes
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.suspensions import Suspensions
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_topic import TrainingTopic
from slowstep.frameworks._known import all_words, words_of_loop
from slowstep.frameworks._words import Words
from slowstep.parts import PartKind
from slowstep.stages import STAGES
from slowstep.timeline.timeline import Place, Timeline


def measure_recording(
    timeline: Timeline,
    warmup: int | None = None,
    *,
    process: int | None = None,
    measure_capture: MeasureCapture | None = None,
    missing: MissingRanks = NONE_MISSING,
) -> Measurements:
    """Measure the training of one process, of that with most updates where none is named; `missing` are the ranks of its job that left no
    recording. Raises NothingRecorded where nothing trained.

    An analysis that fails by a fault of its own takes only what needs it with it.
    """
    analyses = RecordingAnalyses(timeline, warmup, process, measure_capture, missing)
    # Whether anything trained is known at once, and whether a profiler captured some of it.
    _ = analyses.steps
    makers = MAKERS if not analyses.has_captured else {"captured": lambda analyses: analyses.captured, **MAKERS}
    return Measurements({topic: partial(make, analyses) for topic, make in makers.items()}, analyses.attempt.faults)


def _training_topic(found: RecordingAnalyses) -> TrainingTopic:
    """Whose loop trains."""
    attempt, timeline, trainer = found.attempt, found.timeline, found.trainer
    return TrainingTopic(
        words=attempt(_words, timeline, trainer),
        level=attempt(_level, trainer),
        from_within=timeline.run.session is not None,
        reads=attempt(_reads, trainer),
    )


def _level(trainer: Trainer) -> int | None:
    return trainer.facts.level


def _input_topic(found: RecordingAnalyses) -> InputTopic:
    """Who makes batches."""
    attempt, timeline, trainer, steps = found.attempt, found.timeline, found.trainer, found.steps
    fetch_function, timed_fetches = attempt.several(2, _fetch_function, timeline, found.producers, trainer, found.made_by_loader)
    return InputTopic(
        facts=attempt(find_input_facts, timeline, trainer, steps),
        loader=found.loader,
        loader_changes=attempt(find_loader_changes, timeline, trainer, steps),
        demand=found.demand,
        counted=found.counted,
        unmatched_share=attempt(_unmatched_share, found.waits, steps),
        filling_ns=found.filling,
        made_by_loader=found.made_by_loader,
        fetch_function=fetch_function,
        collate_function=attempt(find_collate_function, timeline, found.producers, found.loader),
        timed_fetches=timed_fetches,
        held_transfer_share=attempt(_held_transfer_share, found.waits),
        sampler_time=found.sampler_time,
        rebuilt=attempt(find_rebuilt_input, trainer, steps, found.ledger),
        loop_input=attempt(find_loop_input, timeline, trainer, found.ledger),
        prefetch_threads=attempt(find_prefetch_threads, timeline, trainer, steps, found.ledger, found.concurrent_threads),
        pipeline=attempt(find_pipeline, timeline, trainer, steps),
        padding=attempt(find_padding, timeline, trainer),
        stored_reads=attempt(find_stored_reads, timeline, found.producers, steps),
    )


def _compute_topic(found: RecordingAnalyses) -> ComputeTopic:
    """The steps' own work."""
    attempt, timeline, trainer, steps = found.attempt, found.timeline, found.trainer, found.steps
    calls_python = attempt(runs_python, trainer, steps, found.stacks)
    pass_work = attempt(find_pass_work, timeline, trainer, found.work, calls_python)
    tables = attempt(find_embedding_tables, trainer)
    passes = attempt(_passes, timeline, trainer, pass_work, tables, found.resources)
    return ComputeTopic(
        device=found.device,
        work=found.work,
        fixed_cost=attempt(_fixed_cost, trainer, steps, found.ledger, passes, found.load),
        trainer_cpu_ns=found.trainer_cpu_ns,
        before_update=attempt(find_before_update, trainer, steps, found.stacks),
        own_update=attempt(find_own_update, timeline, trainer, steps, found.stacks),
        in_backward=attempt(find_in_backward, trainer, steps, found.stacks),
        blocked=attempt(
            find_blocked, trainer, steps, found.ledger, found.stacks, found.demand, found.resources, found.load, found.trainer_cpu_ns
        ),
        dispatched=attempt(find_dispatched, trainer, steps, found.ledger),
        between_forwards=attempt(find_between_forwards, timeline, trainer, steps, found.ledger, found.stacks),
        tables=tables,
        retraces=attempt(find_retraces, timeline, trainer, steps),
        products=attempt.otherwise(WhyUnknown.NOT_LOOKED, find_products, timeline, trainer, calls_python),
        narrow=attempt(find_narrow_operations, timeline, trainer),
        unused=attempt(find_unused_gradients, timeline, trainer),
    )


def _machine_topic(found: RecordingAnalyses) -> MachineTopic:
    """What the training gets of its machine."""
    attempt, timeline, trainer, steps = found.attempt, found.timeline, found.trainer, found.steps
    return MachineTopic(
        resources=attempt(_beside_load, found.resources, found.load),
        load=found.load,
        cores=attempt(_cores_of_one, timeline, trainer, steps),
        delay_ns=attempt(_delay_ns, found.ledger, steps),
        pace=attempt(_pace, found.even, trainer, steps, found.fetches, found.waits),
        stopped=attempt(_stopped, found.suspensions, trainer),
        own_cost=attempt(_own_cost, timeline, trainer, steps, found.capture),
    )


def _saves_topic(found: RecordingAnalyses) -> Saves:
    """Checkpoints."""
    return found.attempt(find_saves, found.trainer, found.steps, found.ledger)


def _over_time_topic(found: RecordingAnalyses) -> OverTime:
    """What is not in every step."""
    return found.attempt(
        find_over_time,
        found.timeline,
        found.trainer,
        found.steps,
        found.ledger,
        found.even,
        found.fetches,
        found.waits,
        found.stacks,
        found.filling,
    )


def _after_update_topic(found: RecordingAnalyses) -> AfterUpdateTopic:
    """What runs after updates."""
    return AfterUpdateTopic(
        gaps=found.gaps,
        gap_lines=found.gap_lines,
        activities=found.attempt(_activities, found.timeline, found.trainer),
        outgrown=found.attempt(find_outgrown, found.ledger, found.steps, found.trainer, found.gaps),
    )


def _python_topic(found: RecordingAnalyses) -> PythonTopic:
    """What the interpreter does."""
    return PythonTopic(
        garbage=found.attempt(_garbage, found.timeline, found.trainer, found.steps, found.demand),
        concurrent_threads=found.concurrent_threads,
        has_stacks=found.attempt(_has_stacks, found.stacks),
        files=found.attempt(_files, found.gaps, found.trainer, found.stacks),
    )


def _sharing_topic(found: RecordingAnalyses) -> Sharing:
    """What ranks share."""
    return found.attempt(_sharing, found.timeline, found.trainer, found.steps, found.ledger, found.device, found.missing)


# What measures each topic, in the order in which they are measured where all are.
MAKERS: Final[Mapping[str, Callable[[RecordingAnalyses], Any]]] = {
    "trainer": lambda analyses: analyses.trainer,
    "steps": lambda analyses: analyses.steps,
    "training": _training_topic,
    "ledger": lambda analyses: analyses.completed_ledger,
    "input": _input_topic,
    "saves": _saves_topic,
    "compute": _compute_topic,
    "machine": _machine_topic,
    "over_time": _over_time_topic,
    "after_update": _after_update_topic,
    "python": _python_topic,
    "sharing": _sharing_topic,
    "coverage": lambda analyses: analyses.timeline.coverage,
}


def _reads(trainer: Trainer) -> str | None:
    """What its own loop was given, as a framework says it that has one."""
    kind: str | None = trainer.facts.notes["facts"].get("reads")
    return kind


def _words(timeline: Timeline, trainer: Trainer) -> Words:
    """Of the framework whose loop trains, its loader's where it is another framework's, and where this script makes what they speak of."""
    words = words_of_loop((frame.file for frame in trainer.way_to_update), trainer.facts.framework)
    said = trainer.facts.notes["facts"]
    words = words.computed_by(all_words().get(said.get("computes_with") or ""))
    if (kind := _reads(trainer)) is not None:
        fed = words.reading(kind)
    else:
        # A framework whose loop takes several kinds says which it was given: here it was none, or the loop is the script's.
        loader = all_words().get(find_loaders_framework(timeline, trainer) or "", words)
        fed = words.without_loop().fed_by(loader)
    return fed.placed(trainer.spans["name"].drop_nulls().unique().to_list())


def _activities(timeline: Timeline, trainer: Trainer) -> dict[Place, Activity]:
    return find_activities(timeline, trainer.process)


def _fetch_function(
    timeline: Timeline, producers: list[int], trainer: Trainer, made: tuple[MadeByLoader, ...]
) -> tuple[TimedFunction | None, int]:
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


def _passes(timeline: Timeline, trainer: Trainer, work: PassWork | None, tables: EmbeddingTables | None, resources: Machine) -> Passes:
    return Passes(
        calls=calls_per_body(timeline, trainer.process),
        work=work,
        are_sparse=tables is not None and any(table.is_sparse for table in tables.found),
        queueing=0.0 if resources.threads == 1 else resources.queueing,
    )


def _fixed_cost(trainer: Trainer, steps: Steps, ledger: Ledger, passes: Passes, load: Load) -> FixedCost:
    return find_fixed_cost(trainer, steps, ledger, passes, busy=load.busy)


def _stopped(suspensions: Suspensions, trainer: Trainer) -> tuple[int, float]:
    return suspensions.within(int(trainer.update_end_ns[0]), int(trainer.update_end_ns[-1]))


def _delay_ns(ledger: Ledger, steps: Steps) -> Floats:
    return sum((ledger.of(stage, PartKind.CORE_WAIT) for stage in STAGES), np.zeros(steps.count))


def _cores_of_one(timeline: Timeline, trainer: Trainer, steps: Steps) -> float | None:
    return cores_of_one(timeline, trainer, trainer.facts.cores, concurrent_trainings(timeline, trainer.process, *steps.bounds_ns))


def _own_cost(timeline: Timeline, trainer: Trainer, steps: Steps, capture: Capture | None) -> OwnCost | None:
    return find_own_cost(timeline, trainer, steps.total, capture)


def _beside_load(machine: Machine, load: Load) -> Machine:
    return replace(machine, tree_cores=None) if load.tree_cores is None else machine


def _files(gaps: TimedGaps | None, trainer: Trainer, stacks: Stacks) -> Files:
    return {**timed_files(gaps, trainer), **files_of(stacks, trainer.facts.script)}


def _sharing(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger, device: str, missing: MissingRanks) -> Sharing:
    return find_sharing(timeline, trainer, steps, ledger.of(SHARING), device=device, missing=missing)


def _garbage(timeline: Timeline, trainer: Trainer, steps: Steps, demand: Demand) -> Garbage:
    return find_garbage(timeline, trainer, steps, demand.collecting_ns or 0.0)


def _pace(even: Ledger, trainer: Trainer, steps: Steps, fetches: Fetches, waits: WaitParts) -> Pace:
    return find_machine_pace(even, find_step_bytes(trainer, steps, fetches, waits))
