"""Grown columns become the declared tables: in order of time, without repetitions, names as categories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.sources._kineto.columns import STEP_COLUMNS, Columns
from slowstep.sources._kineto.events import NULL
from slowstep.sources._kineto.groups import Codes
from slowstep.sources._kineto.keys import clean_keys
from slowstep.sources._kineto.numbers import number_in
from slowstep.sources._kineto.store import Grown
from slowstep.sources._last_steps import first_kept_ns
from slowstep.timeline.schema import TABLE
from slowstep.timeline.shapes import spelled_shapes, spelled_types
from slowstep.timeline.table import light
from slowstep.timeline.trace_tables import DEVICE_KIND, DEVICE_KINDS, HOST_KIND, HOST_KINDS

Array = NDArray[Any]
Take = Callable[[str], Array]
# No recording that a profiler keeps whole is that long: where all else is later, a time of 0 says that none was measured.
_NO_RECORDING_NS = 3_600_000_000_000


def finished_tables(columns: Columns, counts: Counter[str], most_events: int | None = None) -> tuple[dict[str, pl.DataFrame], int, int]:
    """All tables but the devices', the time of the first event, with which their times begin, and how many steps were left out because
    they hold more events than are wanted; `columns` is used up.
    """
    starts = {grown: grown.column("time_ns" if grown is columns.memory else "start_ns") for grown in columns.grown}
    first_ns = min((int(values[values != 0].min()) for values in starts.values() if values.any()), default=0)
    if first_ns < _NO_RECORDING_NS:
        first_ns = min((int(values.min()) for values in starts.values() if len(values)), default=0)
    for values in starts.values():
        counts["no-time"] += int((values < first_ns).sum())
    ranks = _ranks(columns.threads)
    marks = starts[columns.steps]
    events = (starts[columns.hosts], starts[columns.devices])
    cut_ns = None if most_events is None else first_kept_ns(marks, events, most_events)
    left_out = 0 if cut_ns is None else int((marks < cut_ns).sum())
    del marks, events
    tables = {
        "marked_steps": _steps(_taker(columns.steps, starts, first_ns, ranks, cut_ns)),
        "allocations": _allocations(_taker(columns.memory, starts, first_ns, ranks, cut_ns)),
        "host_events": _hosts(columns, _taker(columns.hosts, starts, first_ns, ranks, cut_ns, until="end_ns"), counts),
        "device_events": _devices(columns, _taker(columns.devices, starts, first_ns, ranks, cut_ns, until="end_ns")),
        "trace_threads": _threads(columns, ranks),
    }
    tables |= clean_keys(tables["host_events"], tables["device_events"], tables["trace_threads"], columns, counts)
    return tables, first_ns, left_out


def _ranks(threads: Codes) -> Array:
    """For each thread as it was met its index in the tables, by process and thread number: met earlier or later, it has the same."""
    keys = [(number_in(pid) or 0, number_in(tid) or 0, str(tid)) for pid, tid in threads]
    ranks = np.empty(len(keys), dtype=np.int32)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys), dtype=np.int32)
    return ranks


def _taker(grown: Grown, starts: dict[Grown, Array], first_ns: int, ranks: Array, cut_ns: int | None, *, until: str | None = None) -> Take:
    """Gives each column of a table once, in order of time: sorted column by column, so that the whole is never there twice. What is
    before `first_ns` is left out, and what is over before `cut_ns`; `until` is the column that says when, None for that of the begins.
    """
    begin = starts.pop(grown)
    taken = {} if until is None or cut_ns is None else {until: grown.column(until)}
    # Kineto's rows are sorted runs, one after the other: a stable sort merges them.
    in_order = bool((begin[1:] >= begin[:-1]).all()) and not (len(begin) and begin[0] < first_ns)
    order = None if in_order and cut_ns is None else np.argsort(begin, kind="stable")
    if order is not None:
        order = order[np.searchsorted(begin, first_ns, sorter=order) :]
    if order is not None and cut_ns is not None:
        order = order[(begin if until is None else taken[until])[order] >= cut_ns]

    def take(name: str) -> Array:
        values = begin if name in ("start_ns", "time_ns") else taken.pop(name) if name in taken else grown.column(name)
        if order is not None:
            values = values[order]
        if name == "thread":
            return np.asarray(ranks[values])
        return values - first_ns if name.endswith("_ns") else values

    return take


def _known(values: Array, kind: Any = pl.Int64) -> pl.Series:
    """Whole numbers, null where they are not there or do not fit."""
    series = pl.Series(values)
    series = series.set(series == NULL, None) if (values == NULL).any() else series
    return series.cast(kind, strict=False)


def _named(codes: Array, names: Codes, *, as_text: Callable[[Any], str | None] = lambda name: name or None) -> pl.Series:
    """Categories from their codes; null for -1 and for what has no text."""
    texts = pl.Series([as_text(name) for name in names], dtype=pl.String).cast(pl.Categorical)
    at = pl.Series(codes)
    if (codes < 0).any():
        at = at.set(at < 0, None)
    return texts.gather(at) if len(texts) else pl.Series([None] * len(codes), dtype=pl.Categorical)


def _spelled(codes: Array, texts: Codes, spelled: Callable[[bytes], str | None], counts: Counter[str]) -> pl.Series:
    """Categories whose texts have one spelling: without the spaces and lines that writers put in or leave out. What is wrong is counted."""
    wrong = [code for text, code in texts.items() if text not in (b"", b"null") and spelled(text) is None]
    counts["shapes"] += int(np.isin(codes, wrong).sum()) if wrong else 0
    return _named(codes, texts, as_text=spelled)


def _enum(codes: Array, kinds: tuple[str, ...], kind: Any) -> pl.Series:
    return pl.Series(list(kinds), dtype=kind).gather(pl.Series(codes).cast(pl.UInt32))


def _hosts(columns: Columns, take: Take, counts: Counter[str]) -> pl.DataFrame:
    made = {
        "thread": lambda: pl.Series(take("thread")),
        "start_ns": lambda: pl.Series(take("start_ns")),
        "end_ns": lambda: pl.Series(take("end_ns")),
        "kind": lambda: _enum(take("kind"), HOST_KINDS, HOST_KIND),
        "name": lambda: _named(take("name"), columns.names, as_text=lambda name: name),
        "correlation": lambda: _known(take("correlation")),
        "external": lambda: _known(take("external")),
        "sequence": lambda: _known(take("sequence")),
        "shapes": lambda: _spelled(take("shapes"), columns.shapes, spelled_shapes, counts),
        "types": lambda: _spelled(take("types"), columns.types, spelled_types, counts),
        "stack": lambda: _named(take("stack"), columns.stacks),
    }
    return _frame("host_events", made)


def _devices(columns: Columns, take: Take) -> pl.DataFrame:
    made = {
        "device": lambda: pl.Series(take("device")),
        "stream": lambda: pl.Series(take("stream")),
        "start_ns": lambda: pl.Series(take("start_ns")),
        "end_ns": lambda: pl.Series(take("end_ns")),
        "kind": lambda: _enum(take("kind"), DEVICE_KINDS, DEVICE_KIND),
        "name": lambda: _named(take("name"), columns.names, as_text=lambda name: name),
        "correlation": lambda: _known(take("correlation")),
        "external": lambda: _known(take("external")),
        "bytes": lambda: _known(take("bytes")),
        "pageable": lambda: _flags(take("pageable")),
        "blocks": lambda: _product(take("grid"), columns.grids),
        "block_threads": lambda: _product(take("block"), columns.blocks).cast(pl.Int32, strict=False),
        "registers": lambda: _known(take("registers"), pl.Int32),
        "occupancy": lambda: pl.Series(take("occupancy"), nan_to_null=True),
        "collective": lambda: _named(take("collective"), columns.collectives),
        "group_size": lambda: _known(take("group_size"), pl.Int32),
        "from_graph": lambda: pl.Series(take("from_graph")),
    }
    return _frame("device_events", made)


def _steps(take: Take) -> pl.DataFrame:
    plain = pl.DataFrame([pl.Series(name, take(name)) for name in STEP_COLUMNS])
    marked = plain.with_columns(mark=pl.lit("ProfilerStep"))
    return marked.select(pl.col(name).cast(kind) for name, kind in TABLE["marked_steps"].schema.items())


def _allocations(take: Take) -> pl.DataFrame:
    return pl.DataFrame([_known(take(name), kind).alias(name) for name, kind in TABLE["allocations"].schema.items()])


def _threads(columns: Columns, ranks: Array) -> pl.DataFrame:
    rows = []
    for index, (pid, tid) in zip(ranks.tolist(), columns.threads, strict=True):
        name = columns.thread_names.get((pid, tid)) or (tid if isinstance(tid, str) and not tid.lstrip("-").isdigit() else None)
        rows.append((index, number_in(pid), number_in(tid), name))
    return TABLE["trace_threads"].of(sorted(rows, key=lambda row: row[0]))


def _frame(table: str, made: dict[str, Callable[[], pl.Series]]) -> pl.DataFrame:
    schema = TABLE[table].schema
    return light(made[name]().cast(kind).alias(name) for name, kind in schema.items())


def _flags(values: Array) -> pl.Series:
    return pl.DataFrame({"flag": values}).select(pl.when(pl.col("flag") >= 0).then(pl.col("flag") == 1))["flag"]


def _product(codes: Array, texts: Codes) -> pl.Series:
    """Grid or block, as `[2, 1, 1]`, as the number of its elements; null where it has none or is garbage."""
    sizes = np.array([_size(text) for text in texts] or [NULL], dtype=np.int64)
    return _known(np.where(codes < 0, NULL, sizes[np.maximum(codes, 0)]))


def _size(text: bytes) -> int:
    sides = re.findall(rb"-?\d+", text) if text.startswith(b"[") else []
    size = 1
    for side in sides:
        size *= int(side) if len(side) < 20 else 0
    return size if sides and 0 < size < 2**63 and not any(side.startswith(b"-") for side in sides) else NULL
