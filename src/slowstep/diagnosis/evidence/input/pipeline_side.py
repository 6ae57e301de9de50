"""What is known of a pipeline that a framework runs in its own threads: the wait for it, which stage holds it up, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

import numpy as np

from slowstep.analyses.batches.producers import ACCOUNT
from slowstep.analyses.input.pipeline import Pipeline
from slowstep.analyses.input.pipeline_functions import MAP, WrittenStage, kinds_of
from slowstep.analyses.input.pipeline_stage import PipelineStage, way_to_training
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.input.input_side import RECEIVE_LOW_NS, claims, is_made_by_pipeline, removable_waits, wait_stage
from slowstep.diagnosis.evidence.input.pipeline_order import is_flat, is_of_windows, shuffled_bytes
from slowstep.diagnosis.lever_specs import batches_ahead, inputs_at_once, mock_loader, parallel_calls, stored_stages
from slowstep.findings import Evidence, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.part_words import place_in_words
from slowstep.parts import Part, PartKind
from slowstep.units import format_bytes

# What is made in the request itself must take this much of the wait to be what is waited for.
EXPLAINED: Final = 0.5
# So many elements of a batch are surely more than one: what was read at the ends of a window can be off by some of a buffer.
SEVERAL: Final = 1.5
# A thread that computes all the time takes a core: where less is in use by all of them, it waits for much of the time.
COMPUTES_CORES: Final = 0.7
CACHE: Final = "Cache"
PREFETCH: Final = "Prefetch"
BATCH: Final = "Batch"
SHUFFLE: Final = "Shuffle"
# What calls a function for each element, and can make several of these calls at once.
INTERLEAVE: Final = "Interleave"
_CALLS: Final = (MAP, INTERLEAVE)
# What reads files, and calls nothing.
_READERS: Final = ("TFRecord", "TextLine", "FixedLengthRecord", "Csv")
_ONCE: Final = "do what does not change from epoch to epoch once, and store it"
STORED: Final = Fix(text=f"{_ONCE}: cache after the last such stage")
LESS_OF_EACH: Final = Fix(text="make less of each sample, or many at once: arrays of a whole batch in place of loops over samples")


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineWait:
    """What a step waits for such a pipeline (ns, shape (steps,)), less the handing over of batches that lie ready.

    `parts` of the ledger hold it, most of it in `stage`; a step takes so many batches, and `where` is what they are made of.
    """

    ns: Floats
    parts: tuple[Part, ...]
    stage: str
    batches: float
    where: str | None


def wait_for_pipeline(m: Measurements) -> PipelineWait | None:
    """None where no such pipeline feeds the training, or nothing shows what it keeps waiting."""
    counted, loader = m.input.counted, m.input.loader
    if counted is not None and counted.waits:
        # What serial-loader judges, and where the device may have work left while the host waits.
        if counted.is_asynchronous or counted.num_workers == 0:
            return None
        return _wait(m, (PartKind.INPUT_WAIT,), counted.batches, counted.data_set)
    if loader is None or not is_made_by_pipeline(m):
        return None
    # Where threads of the pipeline compute while one is waited for, that thread alone does not tell who makes the batches.
    return _wait(m, (*ACCOUNT, PartKind.INPUT_WAIT), m.steps.requests_per_step or 1.0, loader.data_set)


def _wait(m: Measurements, kinds: tuple[PartKind, ...], batches: float, where: str | None) -> PipelineWait:
    ns = np.maximum(removable_waits(m, *kinds) - batches * RECEIVE_LOW_NS, 0.0)
    return PipelineWait(ns=ns, parts=claims(m, *kinds), stage=wait_stage(m, *kinds), batches=batches, where=where)


def slow_stage(m: Measurements, wait: PipelineWait) -> PipelineStage | None:
    """The stage that the training waits for; None where none is known to take as long as it waits."""
    pipeline = m.input.pipeline
    if pipeline is None or pipeline.slow_stage is None or pipeline.bound_ns is None:
        return None
    return pipeline.slow_stage if pipeline.bound_ns * wait.batches >= EXPLAINED * float(wait.ns.mean()) else None


def ready_share(m: Measurements, wait: PipelineWait) -> float | None:
    """How full the buffers are of a pipeline whose batches lie ready while the training waits; None where it may wait for them.

    Of a machine that is busy with other work: elsewhere nothing but the pipeline is waited for, which may be empty now and then only.
    """
    pipeline = m.input.pipeline
    if pipeline is None or not m.machine.load.busy or pipeline.asked_ns * wait.batches >= EXPLAINED * float(wait.ns.mean()):
        return None
    return pipeline.ready


def stage_name(stage: PipelineStage) -> str:
    """What the script calls it; of several that are done at once that one which has the function."""
    kinds = [each.kind for each in stage.written if stage.function in (None, each.given, *each.in_python)]
    return "from_generator" if any(each.is_generator for each in stage.written) else _name_of((kinds or [stage.name])[0])


def _name_of(kind: str) -> str:
    """What a script calls to have a stage of this kind: `flat_map`, or the class of what reads files."""
    name = kinds_of(kind)[-1]
    return f"{name}Dataset" if name in _READERS else "".join(f"_{each.lower()}" if each.isupper() else each for each in name).strip("_")


def pipeline_stage_in_words(stage: PipelineStage) -> str:
    """The stage, with the function that it calls and where that begins."""
    function = stage.function
    return stage_name(stage) if function is None else f"{stage_name(stage)} of {function.name} ({place_in_words(function.place)})"


def stage_evidence(pipeline: Pipeline, stage: PipelineStage) -> tuple[Evidence, ...]:
    """What says that it is this stage."""
    function = stage.function
    where = None if function is None else f"{function.name}, {place_in_words(function.place)}"
    buffer = next((each for each in way_to_training(pipeline.stages, stage) if each.full is not None), None)
    return (
        Evidence(name="slowest stage", value=stage_name(stage), unit="", where=where),
        *(() if len(stage.functions) < 2 else (_its_functions(stage),)),
        Evidence(name="it takes for a batch", value=stage.busy_ns / 1e6, unit="ms", where=_between(stage)),
        Evidence(name="its calls at once", value=stage.thread.servers, unit="at most", where=_at_work(pipeline, stage)),
        *(() if buffer is None else (Evidence(name="of its buffer ready", value=buffer.full, unit="share"),)),
    )


def _its_functions(stage: PipelineStage) -> Evidence:
    """All of them, where it is not known which of them takes the time."""
    where = ", ".join(f"{each.name} ({place_in_words(each.place)})" for each in stage.functions)
    return Evidence(name="its functions", value=len(stage.functions), unit="", where=where)


def _between(stage: PipelineStage) -> str | None:
    """Between which times it lies, where stages were made anew so that not all was counted."""
    return None if stage.low_ns == stage.high_ns else f"between {stage.low_ns / 1e6:.3g} and {stage.high_ns / 1e6:.3g}"


def _at_work(pipeline: Pipeline, stage: PipelineStage) -> str | None:
    return None if not pipeline.interval_ns else f"{stage.busy_ns / pipeline.interval_ns:.2g} on average"


def pipeline_fixes(m: Measurements, stage: PipelineStage | None) -> tuple[Fix, ...]:
    """What would make the pipeline faster, by how it runs: what it does already is not advised, nor what whoever wrote it cannot write.

    None of it gains more than batches that are always there.
    """
    return tuple(replace(fix, bounded_by=mock_loader(m)) for fix in _fixes(m, stage))


def _fixes(m: Measurements, stage: PipelineStage | None) -> tuple[Fix, ...]:
    pipeline, words = m.input.pipeline, m.training.words
    if pipeline is not None and pipeline.reads is None:
        return _of_any_stage(m, pipeline) if stage is None else _of_stage(m, pipeline, stage)
    ahead = "make batches in parallel, ahead of the training"
    if pipeline is None:
        return (Fix(text=ahead), STORED, LESS_OF_EACH)
    own = words.reading(pipeline.reads or "")
    if not pipeline.is_generated:
        # Of arrays it is the framework that makes batches.
        return (Fix(text=own.advise(Remedy.WORKERS, 4)),)
    # Of a loader that is only handed on, its workers.
    workers = own.write({Remedy.WORKERS: 4, Remedy.PREFETCH: ...})
    return (Fix(text=f"{ahead}{f': {workers}' if workers else ''}"), Fix(text=_ONCE), LESS_OF_EACH)


def _of_any_stage(m: Measurements, pipeline: Pipeline) -> tuple[Fix, ...]:
    """Where it is not known which stage holds up the training: what none of them does yet."""
    words = m.training.words
    kinds = [kinds_of(each.kind)[0] for each in pipeline.written]
    # The framework may put one at the end that nobody wrote.
    running = [kinds_of(each.name)[0] for each in pipeline.stages if each.into is not None]
    is_ahead = PREFETCH in (*kinds[:1], *running[:1])
    one_by_one = [each for each, kind in zip(pipeline.written, kinds, strict=True) if kind in _CALLS and not each.is_parallel]
    in_python = next((each for each in pipeline.written if each.in_python), None)
    if not is_ahead and (one_by_one or not kinds):
        found = [Fix(text=_deeper(words))]
    else:
        found = [_in_parallel(m, one_by_one[0])] if one_by_one else []
        found += [] if is_ahead else [Fix(text=words.advise(Remedy.STAGE_AHEAD), lever=batches_ahead(m))]
    if in_python is not None:
        found.append(Fix(text=words.advise(Remedy.STAGE_IN_FRAMEWORK, function=in_python.in_python[0].name)))
    stored = replace(STORED, lever=_stored(m, pipeline, pipeline.written))
    return (*found, *([] if CACHE in kinds else [stored]), LESS_OF_EACH)


def _in_parallel(m: Measurements, stage: WrittenStage) -> Fix:
    text = m.training.words.advise(Remedy.PARALLEL_STAGE, stage=_name_of(stage.kind))
    return Fix(text=text, lever=_at_once(m, [stage]))


def _at_once(m: Measurements, stages: Sequence[WrittenStage]) -> str | None:
    """What tries that the calls of these stages are made at once; None where nothing does."""
    kinds = {kinds_of(each.kind)[0] for each in stages}
    return parallel_calls(m) if MAP in kinds else inputs_at_once(m) if INTERLEAVE in kinds else None


def _stored(m: Measurements, pipeline: Pipeline, stages: Sequence[WrittenStage]) -> str | None:
    """What tries that what one of these gives is stored; None where each calls Python or stands behind what draws an order anew: of that
    a lever stores nothing.
    """
    kept = takewhile(lambda each: not (each.in_python or each.is_generator or SHUFFLE in kinds_of(each.kind)), reversed(pipeline.written))
    works = [each for each in kept if each.given is not None or kinds_of(each.kind)[0] in _READERS]
    return stored_stages(m) if any(each in works for each in stages) else None


def _deeper(words: Words) -> str:
    workers, ahead = words.name_of(Remedy.WORKERS, "workers"), words.name_of(Remedy.PREFETCH, "batches ahead")
    return words.advise(Remedy.DEEPER_INPUT, workers=workers, ahead=ahead)


def _of_stage(m: Measurements, pipeline: Pipeline, stage: PipelineStage) -> tuple[Fix, ...]:
    values = {"stage": stage_name(stage), "function": "its function" if stage.function is None else stage.function.name}
    ahead = [Remedy.STAGE_AHEAD] if stage.thread.does == "asks" else []
    stored = [] if any(each.kind == CACHE for each in pipeline.written) else [Remedy.STAGE_STORED]
    shuffled = shuffled_bytes(pipeline, stage)
    behind = [] if shuffled is None else [Remedy.SHUFFLED_BEFORE]
    found = [*_by_its_function(m, pipeline, stage), *ahead, *_by_its_place(pipeline, stage), *stored, *behind]
    if Remedy.PARALLEL_READING in found:
        # The same of what reads files.
        found = [each for each in found if each is not Remedy.STAGE_INTERLEAVED]
    lever = _at_once(m, stage.written)
    levers = {Remedy.PARALLEL_STAGE: lever, Remedy.PARALLEL_PYTHON: lever, Remedy.STAGE_AHEAD: batches_ahead(m)}
    levers |= {Remedy.PARALLEL_READING: inputs_at_once(m), Remedy.STAGE_STORED: _stored(m, pipeline, stage.written or pipeline.written)}
    levers[Remedy.STAGE_INTERLEAVED] = inputs_at_once(m)
    sizes = {each: format_bytes((shuffled or 0.0) if each is Remedy.SHUFFLED_BEFORE else stage.bytes) for each in found}
    texts = {each: m.training.words.advise(each, size=size, **values) for each, size in sizes.items()}
    return (*(Fix(text=text, lever=levers.get(each)) for each, text in texts.items()), LESS_OF_EACH)


def _by_its_function(m: Measurements, pipeline: Pipeline, stage: PipelineStage) -> list[Remedy]:
    """Of a stage that calls a function for each element. Python runs one call at a time, but where it waits."""
    if any(each.is_generator for each in stage.written):
        return [Remedy.GENERATED_BATCHES if _is_batched_later(pipeline, stage) else Remedy.STAGE_IN_FRAMEWORK]
    if is_of_windows(pipeline, stage):
        return [Remedy.STAGE_OF_WINDOWS, *([Remedy.STAGE_IN_FRAMEWORK] if stage.is_in_python else [])]
    # Of one call at a time that the framework has chosen, more are asked for already.
    is_single = (stage.parallelism or 1) == 1 and not stage.is_tuned
    is_sequential = is_single and any(kinds_of(each.kind)[0] in _CALLS for each in stage.written)
    interleaved = [Remedy.STAGE_INTERLEAVED] if is_flat(stage) else []
    if not stage.is_in_python:
        vectorized = [Remedy.STAGE_VECTORIZED] if any(each.loops for each in stage.written) else []
        return [*vectorized, *([Remedy.PARALLEL_STAGE] if is_sequential else interleaved)]
    parallel = [Remedy.PARALLEL_PYTHON] if is_sequential else interleaved
    used = m.machine.load.tree_cores
    waits = used is not None and used < COMPUTES_CORES
    return [*parallel, Remedy.STAGE_IN_FRAMEWORK] if waits else [Remedy.STAGE_IN_FRAMEWORK, *parallel]


def _by_its_place(pipeline: Pipeline, stage: PipelineStage) -> list[Remedy]:
    """Of one that reads files, and of one that makes elements which are batched later."""
    # The framework reads each file by a stage that it makes, within one of its own that is none of the script's.
    is_reader = kinds_of(stage.name)[0] in _READERS and stage.thread.does != "calls"
    is_map = any(kinds_of(each.kind)[0] == MAP for each in stage.written)
    # Of a map that is done with the batch, an element is the batch.
    is_before_batch = is_map and (_is_batched_later(pipeline, stage) or any(_batches(each.kind) for each in stage.written))
    return [Remedy.PARALLEL_READING] * is_reader + [Remedy.STAGE_OF_BATCHES] * is_before_batch


def _is_batched_later(pipeline: Pipeline, stage: PipelineStage) -> bool:
    """Whether another stage makes batches of several of its elements."""
    above = way_to_training(pipeline.stages, stage)[1:]
    return stage.elements >= SEVERAL and any(_batches(each.name) for each in above)


def _batches(kind: str) -> bool:
    return any(each.endswith(BATCH) for each in kinds_of(kind))
