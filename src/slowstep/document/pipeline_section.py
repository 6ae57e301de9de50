"""The section `pipeline` of a report: what each stage of the input pipeline takes."""

from __future__ import annotations

from slowstep.analyses.input.pipeline import Pipeline
from slowstep.analyses.input.pipeline_stage import PipelineStage
from slowstep.analyses.measurements import Measurements
from slowstep.document.pipeline import FEW_BATCHES, FEW_READINGS, PipelineRow, StageOfPipelineRow


def pipeline_section(m: Measurements) -> PipelineRow | None:
    """None where no pipeline was looked at that has stages."""
    pipeline = m.input.pipeline if m.has("input") else None
    if pipeline is None:
        return None
    interval_ns = pipeline.interval_ns
    return {
        "stages": [_stage(stage, interval_ns) for stage in pipeline.stages],
        "batches": pipeline.batches,
        "batch_ms": None if interval_ns is None else interval_ns / 1e6,
        "slowest": pipeline.slowest,
        "unread": _unread(pipeline),
    }


def _unread(pipeline: Pipeline) -> str | None:
    """Why nothing was counted, or no more from some time on."""
    if pipeline.unread is not None or pipeline.stages:
        return pipeline.unread
    return FEW_BATCHES if pipeline.batches else FEW_READINGS


def _stage(stage: PipelineStage, interval_ns: float | None) -> StageOfPipelineRow:
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
