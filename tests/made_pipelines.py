"""Builds readings of an input pipeline from what each stage takes, for tests of analyses and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from slowstep.analyses.input.pipeline import Pipeline, measure_pipeline
from slowstep.analyses.input.pipeline_functions import PipelineFunction, WrittenStage
from slowstep.analyses.input.pipeline_nodes import read_window
from slowstep.parts import CodePlace
from slowstep.timeline.schema import TABLE

MS = 1_000_000
LOAD = PipelineFunction(name="load", place=CodePlace("train.py", 7))
PARSE = PipelineFunction(name="parse", place=CodePlace("train.py", 12))


def node(number: int, name: str, *inputs: int, ms: float = 0.0, each: float = 1.0, **more: Any) -> dict[str, Any]:
    """A stage as it runs: it gives so many elements per batch, and takes so many ms for all of them."""
    return {"number": number, "name": name, "inputs": list(inputs), "ms": ms, "each": each, "ratio": 1.0, "buffered": 0, **more}


def readings(
    nodes: Sequence[Mapping[str, Any]], *, batches: int = 40, looks: int = 5, interval_ms: float = 20.0, begin_ms: float = 0.0
) -> pl.DataFrame:
    """So many readings of one iterator, over so many batches, from a time on."""
    rows = [_row(each, batches * look // (looks - 1), interval_ms) for look in range(looks) for each in nodes]
    found = pl.DataFrame(rows, schema=TABLE["pipeline_nodes"].schema, orient="row")
    return found.with_columns(pl.col("time_ns") + int(begin_ms * MS))


def _row(each: Mapping[str, Any], batches: int, interval_ms: float) -> dict[str, Any]:
    return {
        "process": 0,
        "pipeline": 1,
        "time_ns": int(batches * interval_ms * MS),
        "node": each["number"],
        "name": each["name"],
        "inputs": each["inputs"],
        "elements": int(batches * each["each"]),
        "busy_ns": int(batches * each["ms"] * MS),
        "buffered": each["buffered"],
        "bytes": int(batches * each["each"]) * each.get("size", 100),
        "ratio": each["ratio"],
        "parallelism": each.get("parallelism"),
        "parallelism_tuned": each.get("tuned", False),
        "buffer_size": each.get("buffer_size"),
    }


def written(kind: str, given: PipelineFunction | None = None, *in_python: PipelineFunction, **more: Any) -> WrittenStage:
    """A stage as the script wrote it."""
    return WrittenStage(kind=kind, **{"is_generator": False, "reads": None, **more}, given=given, in_python=in_python)


def pipeline(nodes: Sequence[Mapping[str, Any]], *stages: WrittenStage, cores: int | None = 4, **more: Any) -> Pipeline:
    """What is measured of one."""
    return measure_pipeline(read_window(readings(nodes, **more), 0, 1 << 60), stages, cores=cores)


def slow_map(ms: float = 18.0, *, in_python: bool = True, ready: int = 0, **more: Any) -> Pipeline:
    """One of which a sequential map takes so long for a batch, ahead of the training by a buffer of two."""
    nodes = [
        node(1, "Root", 2),
        node(2, "Prefetch", 3, buffer_size=2, buffered=ready),
        node(3, "BatchV2", 4, ms=0.1, ratio=4.0),
        node(4, "Map", 5, ms=ms, each=4.0, **{name: more.pop(name) for name in ("parallelism", "tuned") if name in more}),
        node(5, "Range", each=4.0),
    ]
    stages = (written("Prefetch"), written("Batch"), written("Map", PARSE, *([LOAD] if in_python else [])), written("Range"))
    return pipeline(nodes, *stages, **more)
