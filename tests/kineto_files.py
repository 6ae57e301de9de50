"""The real Kineto traces of the tests, made-up ones, and a second, slow and simple reading of both to compare with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from slowstep.sources._source import PLAIN, HowRead
from slowstep.sources.kineto import SOURCE
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline

FOLDER = Path(__file__).parent / "data" / "kineto"
CASES = sorted(FOLDER.glob("*/*.json.gz"))
NAMES = [str(path.relative_to(FOLDER)) for path in CASES]
SMALL = [path for path in CASES if path.stat().st_size < 30_000]


def case(name: str) -> Path:
    return next(path for path in CASES if name in str(path))


def event(name: str, ts: Any, dur: Any, cat: str = "cpu_op", **more: Any) -> dict[str, Any]:
    """A complete event on the host's thread 100."""
    args = more.pop("args", {})
    return {"ph": "X", "cat": cat, "name": name, "pid": 100, "tid": 100, "ts": ts, "dur": dur, "args": args} | more


def launch(ts: Any, correlation: int, **more: Any) -> dict[str, Any]:
    more["args"] = {"correlation": correlation, "cbid": 211} | more.get("args", {})
    return {"name": "cudaLaunchKernel", "dur": 5, "ts": ts, "cat": "cuda_runtime", "ph": "X", "pid": 100, "tid": 100} | more


def kernel(ts: Any, dur: Any, correlation: int, **more: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": correlation, "grid": [2, 3, 1], "block": [128, 1, 1], "registers per thread": 32}
    more["args"] = args | more.get("args", {})
    return {"name": "gemm", "dur": dur, "ts": ts, "cat": "kernel", "ph": "X", "pid": 0, "tid": 7} | more


def written(folder: Path, events: Iterable[Any], name: str = "made.json", **around: Any) -> Path:
    """A file with these events, as `json.dump` writes it."""
    return raw(folder, json.dumps({"schemaVersion": 1, **around, "traceEvents": list(events)}).encode(), name)


def raw(folder: Path, text: bytes, name: str = "made.json") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def read(path: Path, how: HowRead = PLAIN) -> Timeline:
    """The file, read; holds the declared schema and what must not be null."""
    timeline = SOURCE.read(path, how)
    for name, table in timeline.tables.items():
        declared = TABLE[name]
        assert table.schema == declared.empty().schema, name
        for column in declared.columns:
            assert column.nullable or table[column.name].null_count() == 0, f"{name}.{column.name}"
    return timeline


def read_text(folder: Path, text: bytes, name: str = "made.json") -> Timeline:
    return read(raw(folder, text, name))


def lost(timeline: Timeline) -> dict[str, int]:
    """The health rows, as counts by name."""
    return {row.name: row.count for row in timeline.health}


def rows(timeline: Timeline, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return timeline.table(table).select(columns).rows()


def plain(path: Path) -> list[dict[str, Any]]:
    """All events, by json, with times as exact decimals."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path) as file:
        found = json.load(file, parse_float=Decimal)
    return found["traceEvents"] if isinstance(found, dict) else found


def same(a: Timeline, b: Timeline) -> bool:
    return a.tables.keys() == b.tables.keys() and all(_text(a.tables[name]).equals(_text(b.tables[name])) for name in a.tables)


def _text(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.col(pl.Categorical).cast(pl.String))
