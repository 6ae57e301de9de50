"""What each stage of the input pipeline takes, as plain data: the section `pipeline` of a report."""

from __future__ import annotations

from typing import TypedDict

from slowstep.analyses.input.pipeline import PipelineStage
from slowstep.analyses.measurements import Measurements


class StageOfPipelineRow(TypedDict):
    """One stage as it runs, and what it takes for a batch; what it reads follows it, one deeper.

    `ms` of all its calls together lies between `ms_low` and `ms_high`; `at_once` of them are made at most, `busy` are under way on average.
    `ready` is the share of its buffer that is filled. `written` are the stages of the script that it does, `function` the one to look
    at, which Python runs for each element where `in_python`.
    """

    name: str
    depth: int
    written: list[str]
    elements: float
    bytes: float
    ms: float
    ms_low: float
    ms_high: float
    at_once: int
    busy: float | None
    buffer: int | None
    ready: float | None
    function: str | None
    file: str | None
    line: int | None
    in_python: bool


class PipelineRow(TypedDict):
    """The stages, from the last one to the sources, over so many batches that came `batch_ms` apart; `slowest` is the index of that which
    holds up the training. `unread` is why nothing was counted, or no more from some time on.
    """

    stages: list[StageOfPipelineRow]
    batches: int
    batch_ms: float | None
    slowest: int | None
    unread: str | None


def pipeline_section(m: Measurements) -> PipelineRow | None:
    """None where no pipeline was looked at that has stages."""
    pipeline = m.input.pipeline if m.has("input") and not m.is_trace else None
    if pipeline is None:
        return None
    interval_ns = pipeline.interval_ns
    return {
        "stages": [_stage(stage, interval_ns) for stage in pipeline.stages],
        "batches": pipeline.batches,
        "batch_ms": None if interval_ns is None else interval_ns / 1e6,
        "slowest": pipeline.slowest,
        "unread": pipeline.unread,
    }


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
        "in_python": stage.in_python is not None,
    }
