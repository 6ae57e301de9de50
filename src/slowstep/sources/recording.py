"""Reads a recording folder, also one that is still being written or that a killed process left behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.errors import UnreadableInput
from slowstep.health import Health
from slowstep.record import format as fmt
from slowstep.sources._cells import name_cells
from slowstep.sources._recording_machine import machine_tables
from slowstep.sources._recording_notes import Notes, process_facts, read_notes, run_facts
from slowstep.sources._source import PLAIN, Reading, Source
from slowstep.timeline.schema import TABLE, TABLES
from slowstep.timeline.timeline import Timeline

Records = NDArray[Any]

DTYPE = np.dtype(
    {
        "names": list(fmt.FIELDS),
        "formats": ["<u8", "<u8", "<i8", "<i8", "<i8", "<u4", "<u2", "u1", "u1"],
        "offsets": [0, 8, 16, 24, 32, 40, 44, 46, 47],
        "itemsize": fmt.RECORD_BYTES,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lost:
    torn: int
    malformed: int


def sniff(head: bytes, path: Path) -> bool:
    """A recording is a folder that holds a launcher's notes or any process's records."""
    return path.is_dir() and ((path / "launcher.jsonl").exists() or any(path.glob("*.rec")))


def read(path: Path, how: Reading = PLAIN) -> Timeline:
    """Read a recording folder into a Timeline. Raises UnreadableInput where the folder holds no recording or cannot be read."""
    try:
        files = sorted(file for file in path.glob("*.jsonl"))
        parts = [(read_notes(file), *_read_records(file.with_suffix(".rec"))) for file in files]
    except OSError as error:
        raise UnreadableInput(
            f"{path} cannot be read: {error.strerror or error}. Check that it exists and that you may read it."
        ) from error
    if not parts:
        raise UnreadableInput(f"{path} holds no recording: a folder made by `slowstep run` has .jsonl and .rec files in it.")
    parts.sort(key=lambda part: part[0].started_ns)
    launcher = [part for part in parts if part[0].role == "launcher"]
    recorded = [part for part in parts if part[0].role != "launcher"]
    name_cells([notes for notes, _, _ in recorded], [notes for notes, _, _ in launcher])
    health = [row for notes, _, lost in parts for row in (*notes.health, *_losses(lost))]
    columns: dict[str, list[pl.DataFrame]] = {table.name: [] for table in TABLES}
    for index, (notes, records, _) in enumerate(recorded):
        for name, frame in _process_tables(index, notes, records).items():
            columns[name].append(frame)
    for notes, records, _ in launcher:
        columns["readings"].append(_readings(records))
        columns["launcher_costs"].append(_launcher_costs(records))
        for name, frame in machine_tables(notes, records).items():
            columns[name].append(frame)
    tables = {name: pl.concat(frames) if frames else TABLE[name].empty() for name, frames in columns.items()}
    return Timeline(
        source="recording",
        tables=tables,
        processes=tuple(process_facts(notes) for notes, _, _ in recorded),
        run=run_facts(path.name, [notes for notes, _, _ in launcher]),
        health=tuple(_merged(health)),
    )


def _read_records(path: Path) -> tuple[Records, _Lost]:
    """The finished records of a file, and what of it cannot be used."""
    if not path.exists():
        return np.zeros(0, DTYPE), _Lost(torn=0, malformed=0)
    raw = np.fromfile(path, dtype=np.uint8)
    records = raw[: len(raw) // fmt.RECORD_BYTES * fmt.RECORD_BYTES].view(DTYPE)
    finished = records["kind"] != 0
    used = int(np.flatnonzero(finished)[-1]) + 1 if finished.any() else 0
    tail = records[used : used + 1]
    torn = int((~finished[:used]).sum()) + int(len(tail) and tail.tobytes() != bytes(fmt.RECORD_BYTES))
    sane = (records["t0"] <= records["t1"]) & (records["t1"] <= np.iinfo(np.int64).max)
    return records[finished & sane], _Lost(torn=torn, malformed=int((finished & ~sane).sum()))


def _losses(lost: _Lost) -> Iterable[Health]:
    if lost.torn:
        yield Health(
            name="torn-records",
            severity="notice",
            count=lost.torn,
            remedy="the process was ended in the middle of writing them; all others are whole",
        )
    if lost.malformed:
        yield Health(
            name="malformed-records",
            severity="data_loss",
            count=lost.malformed,
            remedy="they end before they begin: something else has written into the file; record again",
        )


def _merged(rows: Iterable[Health]) -> Iterable[Health]:
    """One row per name: counts of several processes are added, the first remedy stands."""
    found: dict[str, Health] = {}
    for row in rows:
        before = found.get(row.name)
        count = row.count + (before.count if before else 0)
        base = before or row
        found[row.name] = Health(name=base.name, severity=base.severity, count=count, remedy=base.remedy)
    return found.values()


def _process_tables(process: int, notes: Notes, records: Records) -> dict[str, pl.DataFrame]:
    by_kind = {kind: records[records["kind"] == kind] for kind in np.unique(records["kind"]).tolist()}

    def of(kind: int) -> Records:
        return np.asarray(by_kind.get(kind, records[:0]))

    return {
        "processes": _frame(
            "processes",
            process=[process],
            pid=[notes.pid],
            parent_pid=[notes.process.get("ppid")],
            role=[notes.role],
            started_ns=[notes.started_ns],
            ended=[notes.ended],
        ),
        "iterators": _iterators(process, notes),
        "waits": _waits(process, of(fmt.WAIT)),
        "starts": _frame("starts", **_span(process, r := of(fmt.START)), iterator=r["a"], loader=r["b"], num_workers=r["c"]),
        "updates": _frame("updates", **_span(process, r := of(fmt.UPDATE)), optimizer=r["a"], skipped=_flag(r, fmt.SKIPPED)),
        "spans": _spans(process, notes, of),
        "fetches": _fetches(process, of),
        "collates": _frame("collates", **_span(process, r := of(fmt.COLLATE)), cpu_ns=r["a"], bytes=_known(r["b"])),
        "idles": _frame("idles", **_span(process, of(fmt.IDLE))),
        "cpu_marks": _frame("cpu_marks", **_mark(process, r := of(fmt.CPU)), cpu_ns=r["a"], delay_ns=r["b"]),
        "stacks": _frame("stacks", **_mark(process, r := of(fmt.STACK)), stack=r["a"], weight_ns=r["b"], lateness_ns=r["c"]),
        "frames": _frames(process, notes),
        "calls": _calls(process, notes),
        "call_edges": _call_edges(process, notes),
        "builtins": _builtins(process, notes),
        "batch_forms": _batch_forms(process, notes),
        "lines": _lines(process, notes),
        "modes": _frame("modes", process=process, time_ns=(r := of(fmt.MODES))["t0"], on=r["a"], looked_at=r["b"]),
        "slow_samples": _frame(
            "slow_samples", **_span(process, r := of(fmt.SLOW_SAMPLE)), index=_known(r["a"]), usual_ns=r["b"], batch=r["c"]
        ),
        "totals": _frame("totals", **_span(process, r := of(fmt.TOTALS)), steps=r["a"], samples=_known(r["b"])),
        "backward_cpu": _frame("backward_cpu", **_span(process, r := of(fmt.BACKWARD_CPU)), cpu_ns=r["a"], delay_ns=_known(r["b"])),
    }


def _frame(table: str, **columns: Any) -> pl.DataFrame:
    length = max((len(values) for values in columns.values() if not np.isscalar(values)), default=0)
    series = []
    for name, kind in TABLE[table].schema.items():
        values = columns[name]
        if np.isscalar(values):
            values = np.full(length, values)
        series.append(pl.Series(name, values, strict=False).cast(kind) if len(values) else pl.Series(name, [], dtype=kind))
    return pl.DataFrame(series)


def _span(process: int, records: Records) -> dict[str, Any]:
    return {"process": process, "thread": records["thread"], "start_ns": records["t0"], "end_ns": records["t1"]}


def _mark(process: int, records: Records) -> dict[str, Any]:
    return {"process": process, "thread": records["thread"], "time_ns": records["t0"]}


def _known(values: NDArray[np.int64], unknown: int = -1) -> pl.Series:
    """The values, null where the recorder wrote `unknown`."""
    series = pl.Series(values.astype(np.int64))
    return series.set(series == unknown, None)


def _flag(records: Records, flag: int) -> NDArray[np.bool_]:
    return np.asarray((records["flags"] & flag) != 0)


def _waits(process: int, records: Records) -> pl.DataFrame:
    return _frame(
        "waits",
        **_span(process, records),
        iterator=records["a"],
        batch=records["b"],
        samples=_known(records["c"]),
        ready=_known(records["extra"], fmt.READY_UNKNOWN),
        exhausted=_flag(records, fmt.END),
        failed=_flag(records, fmt.FAILED),
        validation=_flag(records, fmt.VALIDATION),
    )


def _fetches(process: int, of: Any) -> pl.DataFrame:
    fetch = of(fmt.FETCH)
    delay, io = _joined(fetch, of(fmt.FETCH_DELAY)), _joined(fetch, of(fmt.FETCH_IO))
    return _frame(
        "fetches",
        **_span(process, fetch),
        iterator=_null(delay, "c", -1),
        batch=fetch["a"],
        samples=_known(fetch["b"]),
        cpu_ns=fetch["c"],
        other_cpu_ns=_null(delay, "a"),
        delay_ns=_null(delay, "b"),
        read_bytes=_null(io, "a"),
        storage_bytes=_null(io, "b"),
        failed=_flag(fetch, fmt.FAILED),
        profiled=_flag(fetch, fmt.PROFILED),
        read_calls=_null(io, "c"),
    )


def _joined(fetch: Records, more: Records) -> tuple[Records, NDArray[np.bool_]]:
    """The record of `more` that belongs to each fetch (same begin), and whether there is one."""
    if not len(fetch) or not len(more):
        return np.zeros(len(fetch), DTYPE), np.zeros(len(fetch), dtype=bool)
    more = more[np.argsort(more["t0"], kind="stable")]
    at = np.minimum(np.searchsorted(more["t0"], fetch["t0"]), len(more) - 1)
    return more[at], more["t0"][at] == fetch["t0"]


def _null(joined: tuple[Records, NDArray[np.bool_]], field: str, unknown: int | None = None) -> pl.Series:
    records, found = joined
    series = pl.Series(records[field].astype(np.int64))
    absent = pl.Series(~found)
    if unknown is not None:
        absent = absent | (series == unknown)
    return series.set(absent, None)


def _spans(process: int, notes: Notes, of: Any) -> pl.DataFrame:
    from slowstep.stages import STAGES

    parts = []
    for kind, name in ((fmt.BACKWARD, "backward"), (fmt.FORWARD, "forward"), (fmt.SAVE, "save"), (fmt.SPAN, "span")):
        r = of(kind)
        label: list[str | None] = [None] * len(r)
        stage: list[str | None] = [None] * len(r)
        if kind == fmt.SAVE:
            label = [notes.texts.get(i) for i in r["b"].tolist()]
        if kind == fmt.SPAN:
            label = [notes.texts.get(i) for i in r["a"].tolist()]
            stage = [STAGES[i] if 0 <= i < len(STAGES) else None for i in r["b"].tolist()]
        places = [notes.places.get(i) for i in r["a"].tolist()] if kind == fmt.SPAN else [None] * len(r)
        nothing = np.full(len(r), -1)
        gradients = ((r["flags"] & fmt.NO_GRADIENT) == 0).astype(np.int64)
        parts.append(
            _frame(
                "spans",
                **_span(process, r),
                kind=[name] * len(r),
                name=label,
                stage=stage,
                samples=_known(r["a"] if kind == fmt.FORWARD else nothing),
                module=_known(r["b"] if kind == fmt.FORWARD else nothing),
                gradients=_known(gradients if kind == fmt.FORWARD else nothing).cast(pl.Boolean),
                bytes=_known(r["a"] if kind == fmt.SAVE else nothing),
                file=[place and place[0] for place in places],
                line=[place and place[1] for place in places],
            )
        )
    return pl.concat(parts)


def _iterators(process: int, notes: Notes) -> pl.DataFrame:
    rows = notes.of("iterator")
    columns = {name: [row.get(key) for row in rows] for name, key in _ITERATOR_KEYS.items()}
    columns["workers"] = [row.get("workers") or [] for row in rows]
    if not rows:
        return TABLE["iterators"].empty()
    return pl.DataFrame({"process": [process] * len(rows), **columns}, schema=TABLE["iterators"].schema, strict=False)


_ITERATOR_KEYS = {
    "iterator": "id",
    "loader": "loader",
    "num_workers": "num_workers",
    "prefetch_factor": "prefetch_factor",
    "batch_size": "batch_size",
    "dataset": "dataset",
    "collate": "collate",
    "collate_file": "collate_file",
    "collate_line": "collate_line",
    "collate_is_default": "is_default_collate",
    "persistent": "persistent",
    "dataset_length": "dataset_length",
}


def _frames(process: int, notes: Notes) -> pl.DataFrame:
    frames = {row["id"]: row for row in notes.of("frame")}
    rows = [
        (process, stack["id"], depth, frame["file"], frame["function"], frame["first_line"], frame["line"])
        for stack in notes.of("stack")
        for depth, frame in enumerate(frames[i] for i in stack["frames"] if i in frames)
    ]
    return pl.DataFrame(rows, schema=TABLE["frames"].schema, orient="row")


def _calls(process: int, notes: Notes) -> pl.DataFrame:
    rows = [
        (
            process,
            note["of"],
            number,
            f["file"],
            f["function"],
            f["line"],
            f["total_ns"],
            f["own_ns"],
            note["stretches"],
            f.get("calls"),
            note.get("wall_ns"),
            note.get("slowdown"),
        )
        for note in notes.timed_calls()
        for number, f in enumerate(note["functions"])
    ]
    return pl.DataFrame(rows, schema=TABLE["calls"].schema, orient="row")


def _call_edges(process: int, notes: Notes) -> pl.DataFrame:
    rows = [
        (process, note["of"], number, callee, total_ns)
        for note in notes.timed_calls()
        for number, function in enumerate(note["functions"])
        for callee, total_ns in function["callees"]
    ]
    return pl.DataFrame(rows, schema=TABLE["call_edges"].schema, orient="row")


def _builtins(process: int, notes: Notes) -> pl.DataFrame:
    note = notes.last("builtins")
    rows = [
        (process, number, *(row[key] for key in _BUILTIN_KEYS), *_caller(row), note["samples"], note["wall_ns"])
        for number, row in enumerate(note.get("rows", ()))
    ]
    return pl.DataFrame(rows, schema=TABLE["builtins"].schema, orient="row")


_BUILTIN_KEYS = ("function", "file", "line", "calls", "total_ns")


def _caller(row: dict[str, Any]) -> tuple[str | None, str | None, int | None]:
    """Function, file and first line of the caller with most time."""
    first = next(iter(row["callers"]), None)
    return (None, None, None) if first is None else (first[1], first[0], first[2])


def _batch_forms(process: int, notes: Notes) -> pl.DataFrame:
    rows = [
        (
            process,
            note["tensors"],
            note["bytes"],
            note["spare_bytes"],
            ", ".join(sorted(note["types"], key=lambda name: -note["types"][name])),
        )
        for note in notes.of("batch")
    ]
    return pl.DataFrame(rows, schema=TABLE["batch_forms"].schema, orient="row")


def _lines(process: int, notes: Notes) -> pl.DataFrame:
    keys = ("file", "function", "first_line", "line", "count", "ns")
    rows = [(process, *(line[key] for key in keys)) for note in notes.of("lines") for line in note["lines"]]
    return pl.DataFrame(rows, schema=TABLE["lines"].schema, orient="row")


def _readings(records: Records) -> pl.DataFrame:
    r = records[records["kind"] == fmt.READING_CPU]
    return _frame("readings", time_ns=r["t0"], tree_cpu_ns=r["a"], busy_cpu_ns=r["b"], stolen_cpu_ns=r["c"])


def _launcher_costs(records: Records) -> pl.DataFrame:
    r = records[records["kind"] == fmt.READING_COST]
    return _frame("launcher_costs", time_ns=r["t0"], cpu_ns=r["a"])


SOURCE = Source(name="recording", sniff=sniff, read=read)
