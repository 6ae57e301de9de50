"""What one training, recorded or traced, tells by itself: the sections of its report."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from slowstep.analyses.input.pipeline import Pipeline
from slowstep.analyses.input.pipeline_stage import PipelineStage
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.few_steps import is_provisional
from slowstep.diagnosis.gain import gain_without, speed_interval
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.ledger import ledger_section, unseen_ledger
from slowstep.document.loader_settings import loader_settings
from slowstep.document.pipeline import FEW_BATCHES, FEW_READINGS, PipelineRow, StageOfPipelineRow
from slowstep.document.rows import health_row
from slowstep.document.run_rows import Run
from slowstep.document.sections import Sections
from slowstep.document.throughput_rows import NO_THROUGHPUT, Overhead, Throughput
from slowstep.faults import Attempts
from slowstep.health import Health

UNKNOWN_OVERHEAD: Overhead = {"us_per_step": None, "share": None}


def sections_of_training(run: Run, m: Measurements, diagnosis: Diagnosis, health: Iterable[Health], attempt: Attempts) -> Sections:
    """What a training of this run tells. What of it cannot be made is left out, and is one of the faults of `attempt`."""
    return Sections(
        run=run,
        throughput=attempt.otherwise(NO_THROUGHPUT, throughput_section, m, attempt),
        ledger=attempt.otherwise(unseen_ledger(), ledger_section, m),
        diagnosis=diagnosis,
        health=tuple(map(health_row, health)),
        overhead=attempt.otherwise(UNKNOWN_OVERHEAD, overhead_section, m),
        pipeline=attempt.otherwise(None, pipeline_section, m),
        loader_settings=attempt.otherwise(None, loader_settings, m, diagnosis),
    )


def throughput_section(m: Measurements, attempt: Attempts) -> Throughput:
    """How fast the training is. Where no steps are known, and all that was traced is taken as one, it has no speed."""
    seconds = m.steps.length_ns / 1e9
    if seconds <= 0:
        return NO_THROUGHPUT
    usual = m.step_ns[~m.steps.eventful]
    p05, median, p95 = np.percentile((usual if len(usual) else m.step_ns) / 1e6, [5, 50, 95])
    samples, has_steps = _samples(m), not (m.are_steps_marked and m.marks.is_window)
    speed: Throughput = {
        "samples_per_s": samples / seconds if samples and has_steps else None,
        "steps_per_s": m.steps.count / seconds if has_steps else None,
        "step_ms": {"median": float(median), "p05": float(p05), "p95": float(p95)},
    }
    if (ends := attempt.otherwise(None, _speed_interval, m)) is not None:
        fastest_ns, slowest_ns = ends
        speed["steps_per_s_interval"] = {"low": 1e9 / slowest_ns, "high": 1e9 / fastest_ns}
    if (ends_of_reach := attempt.otherwise(None, _reach, m)) is not None:
        gain, low, high = ends_of_reach
        speed["reach"] = {"gain": gain, "low": low, "high": high}
    return speed


def _samples(m: Measurements) -> float | None:
    """In all steps; None where that is unknown. All steps that a profiler marks are taken to have as many."""
    if m.are_steps_marked:
        return m.steps.batch_size * m.steps.count if m.steps.batch_size else None
    samples = float(m.steps.samples.sum())
    return samples if math.isfinite(samples) and samples > 0 else None


def _speed_interval(m: Measurements) -> tuple[float, float] | None:
    """Of the mean step. Of too few steps for a verdict, too few for an interval: they say nothing of how much steps differ."""
    return None if m.are_steps_marked or is_provisional(m) else speed_interval(m)


def _reach(m: Measurements) -> tuple[float, float, float] | None:
    """Of too few steps for a verdict nothing is predicted."""
    return None if is_provisional(m) else gain_without(m, "read", "preprocess", "output", "store")


def pipeline_section(m: Measurements) -> PipelineRow | None:
    """None where no pipeline was looked at that has stages."""
    pipeline = m.input.pipeline if m.has("input") else None
    if pipeline is None:
        return None
    interval_ns = pipeline.interval_ns
    return {
        "stages": [_pipeline_stage(stage, interval_ns) for stage in pipeline.stages],
        "batches": pipeline.batches,
        "batch_ms": None if interval_ns is None else interval_ns / 1e6,
        "slowest": pipeline.slowest,
        "unread": _why_unread(pipeline),
    }


def _why_unread(pipeline: Pipeline) -> str | None:
    """Why nothing was counted, or no more from some time on."""
    if pipeline.unread is not None or pipeline.stages:
        return pipeline.unread
    return FEW_BATCHES if pipeline.batches else FEW_READINGS


def _pipeline_stage(stage: PipelineStage, interval_ns: float | None) -> StageOfPipelineRow:
    function = stage.function
    return {
        "name": stage.name,
        "depth": stage.depth,
        "written": [each.kind for each in stage.written],
        "elements": stage.elements,
        "bytes": stage.bytes,
        "ms": stage.busy_ns / 1e6,
        "ms_low": stage.low_ns / 1e6,
        "ms_high": stage.high_ns / 1e6,
        "at_once": stage.thread.servers,
        "busy": stage.busy_ns / interval_ns if interval_ns else None,
        "buffer": stage.buffer_size,
        "ready": stage.full,
        "function": None if function is None else function.name,
        "file": None if function is None else function.place.file,
        "line": None if function is None else function.place.line,
        "in_python": stage.is_in_python,
    }


def overhead_section(m: Measurements) -> Overhead:
    """The cost of recording; unknown of a trace: what its profiler cost is in its times, and nobody knows how much."""
    cost = m.machine.own_cost if m.has("machine") else None
    if cost is None:
        return UNKNOWN_OVERHEAD
    row: Overhead = {"us_per_step": cost.ns_per_step / 1e3, "share": cost.share, "once_ms": cost.once_ns / 1e6}
    if cost.limited_share is not None:
        row["parts"] = [{"name": part.value, "share": share} for part, share in sorted(cost.parts.items(), key=lambda each: -each[1])]
        row["limit_share"] = cost.limit_share(float(m.step_ns.mean()))
        row["held"] = cost.limited_share <= row["limit_share"]
        row["call_timing_share_at_most"] = cost.timing_share
        row["may_exceed"] = cost.limited_share + (cost.timing_share or 0.0) > row["limit_share"]
    return row
