"""The tables that are made of a process's notes alone, line by line."""

from __future__ import annotations

from typing import Any

import polars as pl

from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.padding_fit import NUMBERS
from slowstep.sources._recording.pipelines import pipeline_tables
from slowstep.sources._recording.stored_reads_fit import COUNTS, TEXTS
from slowstep.timeline.schema import TABLE


def line_tables(process: int, notes: NoteLines) -> dict[str, pl.DataFrame]:
    """All of them, by name; `process` is the index of the process in `processes`."""
    return {
        "iterators": _iterators(process, notes),
        "input_code": _input_code(process, notes),
        "frames": _frames(process, notes),
        "calls": _calls(process, notes),
        "call_edges": _call_edges(process, notes),
        "timed_stretches": _timed_stretches(process, notes),
        "builtins": _builtins(process, notes),
        "batch_forms": _batch_forms(process, notes),
        "lines": _lines(process, notes),
        "called": _called(process, notes),
        "threads": _threads(process, notes),
        "graph_work": _graph_work(process, notes),
        "graph_products": _graph_products(process, notes),
        "graph_unused": _graph_unused(process, notes),
        "stored_reads": _stored_reads(process, notes),
        "retraces": _retraces(process, notes),
        **_padding(process, notes),
        **pipeline_tables(process, notes),
    }


def _iterators(process: int, notes: NoteLines) -> pl.DataFrame:
    rows = notes.of("iterator")
    columns = {name: [row.get(key) for row in rows] for name, key in _ITERATOR_KEYS.items()}
    columns["workers"] = [row.get("workers") or [] for row in rows]
    # As the script has given them: 0 is as good as False.
    columns |= {name: [value if value is None else bool(value) for value in columns[name]] for name in _GIVEN_FLAGS}
    if not rows:
        return TABLE["iterators"].empty()
    return pl.DataFrame({"process": [process] * len(rows), **columns}, schema=TABLE["iterators"].schema, strict=False)


_GIVEN_FLAGS = ("pin_memory", "drop_last")
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
    "pin_memory": "pin_memory",
    "start_method": "context",
    "dataset_length": "dataset_length",
    "batches": "batches",
    "framework": "framework",
    "marked": "marked",
    "divides": "divides",
    "draws": "draws",
    "snapshot_every": "snapshot_every",
    "changed": "changed",
    "generator": "generator",
    "drop_last": "drop_last",
}


def _input_code(process: int, notes: NoteLines) -> pl.DataFrame:
    rows = []
    for note in notes.of("iterator"):
        for kind, key in _CLASS_KEYS.items():
            rows += [(process, note["id"], kind, file, name, None) for file, name in note.get(key) or ()]
        rows += [(process, note["id"], "maker", *place) for place in note.get("made_in") or ()]
    return TABLE["input_code"].of(rows)


_CLASS_KEYS = {"data_set": "data_set_classes", "sampler": "sampler_classes"}


_FRAME = ("file", "function", "first_line", "line")
_CALL = ("column", "end_line", "end_column", "called", "in_loop")


def _frames(process: int, notes: NoteLines) -> pl.DataFrame:
    frames = {row["id"]: row for row in notes.of("frame")}
    rows = [
        (process, stack["id"], depth, *(frame[key] for key in _FRAME), *(frame.get(key) for key in _CALL))
        for stack in notes.of("stack")
        for depth, frame in enumerate(frames[i] for i in stack["frames"] if i in frames)
    ]
    return TABLE["frames"].of(rows)


def _calls(process: int, notes: NoteLines) -> pl.DataFrame:
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
    return TABLE["calls"].of(rows)


def _call_edges(process: int, notes: NoteLines) -> pl.DataFrame:
    rows = [
        (process, note["of"], number, callee, total_ns)
        for note in notes.timed_calls()
        for number, function in enumerate(note["functions"])
        for callee, total_ns in function["callees"]
    ]
    return TABLE["call_edges"].of(rows)


def _timed_stretches(process: int, notes: NoteLines) -> pl.DataFrame:
    rows = [(process, note["of"], began_ns) for note in notes.timed_calls() for began_ns in note.get("began_ns", ())]
    return TABLE["timed_stretches"].of(rows)


def _builtins(process: int, notes: NoteLines) -> pl.DataFrame:
    note = notes.last("builtins")
    rows = [
        (process, number, *(row[key] for key in _BUILTIN_KEYS), *_caller(row), note["samples"], note["wall_ns"])
        for number, row in enumerate(note.get("rows", ()))
    ]
    return TABLE["builtins"].of(rows)


_BUILTIN_KEYS = ("function", "file", "line", "calls", "total_ns")


def _caller(row: dict[str, Any]) -> tuple[str | None, str | None, int | None]:
    """Function, file and first line of the caller with most time."""
    first = next(iter(row["callers"]), None)
    return (None, None, None) if first is None else (first[1], first[0], first[2])


def _batch_forms(process: int, notes: NoteLines) -> pl.DataFrame:
    rows = [
        (
            process,
            note["tensors"],
            note["bytes"],
            note["spare_bytes"],
            ", ".join(sorted(note["types"], key=lambda name: -note["types"][name])),
            note.get("array_bytes"),
        )
        for note in notes.of("batch")
    ]
    return TABLE["batch_forms"].of(rows)


def _lines(process: int, notes: NoteLines) -> pl.DataFrame:
    keys = ("file", "function", "first_line", "line", "count", "ns")
    rows = [
        (process, _kind(note), *(line[key] for key in keys), note.get("counting_ns"), note.get("complete"), line.get("operations"))
        for note in notes.of("lines")
        for line in note["lines"]
    ]
    return TABLE["lines"].of(rows)


def _called(process: int, notes: NoteLines) -> pl.DataFrame:
    keys = tuple(TABLE["called"].schema)[2:]
    # Older ones do not say which calls were early.
    rows = [(process, _kind(note), *map(entry.get, keys)) for note in notes.of("lines") for entry in note.get("functions", ())]
    return TABLE["called"].of(rows)


def _kind(note: dict[str, Any]) -> str:
    return str(note.get("of", "body"))


def _threads(process: int, notes: NoteLines) -> pl.DataFrame:
    names = {note["id"]: note["name"] for note in notes.of("thread")}
    rows = [(process, number, name) for number, name in names.items()]
    return TABLE["threads"].of(rows)


def _graph_work(process: int, notes: NoteLines) -> pl.DataFrame:
    """One row a note; `process` is the index of the process in `processes`."""
    columns = [name for name in TABLE["graph_work"].schema if name not in ("process", "time_ns")]
    return TABLE["graph_work"].of([(process, note["at_ns"], *(note.get(name) for name in columns)) for note in notes.of("work")])


def _graph_products(process: int, notes: NoteLines) -> pl.DataFrame:
    """One row for each of a note's; of its numbers a negative one is not known. Older rows have no kernel at their end."""
    rows = [
        (process, note["at_ns"], *row[:3], *(None if number < 0 else number for number in row[3:9]), *(row[9:] or [None]))
        for note in notes.of("products")
        for row in note["rows"]
    ]
    return TABLE["graph_products"].of(rows)


def _graph_unused(process: int, notes: NoteLines) -> pl.DataFrame:
    """One row a note; `process` is the index of the process in `processes`."""
    columns = [name for name in TABLE["graph_unused"].schema if name not in ("process", "time_ns")]
    return TABLE["graph_unused"].of([(process, note["at_ns"], *(note.get(name) for name in columns)) for note in notes.of("unused")])


def _stored_reads(process: int, notes: NoteLines) -> pl.DataFrame:
    """By the last line, which has all of the looks that were kept; `process` is the index of the process in `processes`."""
    return TABLE["stored_reads"].of([row for look in notes.last("stored_reads").get("looks", ()) for row in _reads_of_look(process, look)])


def _reads_of_look(process: int, look: dict[str, Any]) -> list[tuple[Any, ...]]:
    start = (process, look["at_ns"], look["wall_ns"], look["samples"] or None)
    if not look["rows"]:
        return [(*start, *(None,) * (len(TABLE["stored_reads"].columns) - len(start)))]
    return [
        (*start, *(row[key] for key in (*TEXTS, *COUNTS)), row.get("used_bytes"), row["chunk"], row.get("selected")) for row in look["rows"]
    ]


def _padding(process: int, notes: NoteLines) -> dict[str, pl.DataFrame]:
    """What was seen of padding: `padded_batches` and `graph_shapes`; `process` is the index of the process in `processes`."""
    batches = [row for note in notes.of("padded") for row in _padding_of_batch(process, note)]
    shapes = [(process, note["at_ns"], note["nodes"], note.get("uses"), *row) for note in notes.of("shapes") for row in note["shapes"]]
    return {
        "padded_batches": TABLE["padded_batches"].of(batches),
        "graph_shapes": TABLE["graph_shapes"].of(shapes),
    }


def _padding_of_batch(process: int, note: dict[str, Any]) -> list[tuple[Any, ...]]:
    start = (process, note["at_ns"], note["iterator"], note["batch"])
    if not note["arrays"]:
        return [(*start, *(None,) * 9)]
    return [
        (
            *start,
            *(each[key] for key in NUMBERS),
            each.get("lengths"),
            each.get("value"),
            each["side"] > 0 if "side" in each else None,
            each.get("inside"),
            each.get("values"),
            each["mask"],
        )
        for each in note["arrays"]
    ]


def _retraces(process: int, notes: NoteLines) -> pl.DataFrame:
    keys = ("at_ns", "function", "number")
    rows = [(process, *(note[key] for key in keys), *change) for note in notes.of("retrace") for change in note["changes"]]
    return TABLE["retraces"].of(rows)
