"""The tables of one recorded process, from its records and notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.record.writing import format as fmt
from slowstep.sources._recording.lines import line_tables
from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.records import DTYPE, Records, flag, frame, known, mark, span
from slowstep.stages import STAGES
from slowstep.timeline.schema import TABLE

# What aggregates are of.
_COUNTED: Final = {fmt.WAIT: "wait", fmt.UPDATE: "update"}
# Whether a backward pass shares its gradients.
_SYNCED: Final = {fmt.SYNCED: True, fmt.SYNCED_ANEW: True, fmt.UNSYNCED: False}
Kinds = Callable[[int], Records]


def process_tables(process: int, notes: NoteLines, records: Records) -> dict[str, pl.DataFrame]:
    """All of them, by name; `process` is the index of the process in `processes`."""
    by_kind = {kind: records[records["kind"] == kind] for kind in np.unique(records["kind"]).tolist()}

    def of(kind: int) -> Records:
        return np.asarray(by_kind.get(kind, records[:0]))

    return {
        **outline_tables(process, notes, of(fmt.UPDATE)),
        "waits": _waits(process, of(fmt.WAIT)),
        "starts": frame("starts", **span(process, r := of(fmt.START)), iterator=r["a"], loader=r["b"], num_workers=r["c"]),
        "aggregates": _aggregates(process, of(fmt.AGGREGATE)),
        "spans": _spans(process, notes, of),
        "fetches": _fetches(process, of),
        "collates": frame("collates", **span(process, r := of(fmt.COLLATE)), cpu_ns=r["a"], bytes=known(r["b"])),
        "collections": _collections(process, notes, of(fmt.COLLECTION)),
        "idles": frame("idles", **span(process, of(fmt.IDLE))),
        "cpu_marks": frame("cpu_marks", **mark(process, r := of(fmt.CPU)), cpu_ns=r["a"], delay_ns=r["b"]),
        "stacks": _stacks(process, of(fmt.STACK)),
        "modes": frame("modes", process=process, time_ns=(r := of(fmt.MODES))["t0"], on=r["a"], looked_at=r["b"]),
        "graphs": _graphs(process, of(fmt.GRAPH)),
        "slow_samples": _slow_samples(process, of(fmt.SLOW_SAMPLE)),
        "totals": frame("totals", **span(process, r := of(fmt.TOTALS)), steps=r["a"], samples=known(r["b"])),
        "backward_cpu": _backward_cpu(process, of(fmt.BACKWARD_CPU)),
        **line_tables(process, notes),
    }


def outline_tables(process: int, notes: NoteLines, updates: Records) -> dict[str, pl.DataFrame]:
    """Who it is, and when it updated: what those that train beside it have to know of it."""
    return {
        "processes": frame(
            "processes",
            process=[process],
            pid=[notes.pid],
            parent_pid=[notes.process.get("ppid")],
            role=[notes.role],
            started_ns=[notes.started_ns],
            ended=[notes.ended],
        ),
        "updates": _updates(process, updates),
    }


def _waits(process: int, records: Records) -> pl.DataFrame:
    return frame(
        "waits",
        **span(process, records),
        iterator=records["a"],
        batch=records["b"],
        samples=known(records["c"]),
        ready=known(records["extra"], fmt.READY_UNKNOWN),
        exhausted=flag(records, fmt.END),
        failed=flag(records, fmt.FAILED),
        validation=flag(records, fmt.VALIDATION),
    )


def _updates(process: int, r: Records) -> pl.DataFrame:
    often = np.maximum(r["b"], 1)
    return frame("updates", **span(process, r), optimizer=r["a"], updates=often, skipped=flag(r, fmt.SKIPPED))


def _aggregates(process: int, r: Records) -> pl.DataFrame:
    kinds = [_COUNTED.get(kind) for kind in r["extra"].tolist()]
    of = {"kind": kinds, "count": r["a"], "total_ns": r["b"], "iterator": known(r["c"], fmt.NO_ITERATOR)}
    samples = _null(_joined(r, r[r["extra"] == fmt.FETCH]), "b").set(pl.Series(r["extra"] != fmt.WAIT, dtype=pl.Boolean), None)
    return frame("aggregates", **span(process, r), **of, samples=samples).filter(pl.col("kind").is_not_null())


def _fetches(process: int, of: Kinds) -> pl.DataFrame:
    fetch = of(fmt.FETCH)
    delay, io = _joined(fetch, of(fmt.FETCH_DELAY)), _joined(fetch, of(fmt.FETCH_IO))
    return frame(
        "fetches",
        **span(process, fetch),
        iterator=_null(delay, "c", -1),
        batch=fetch["a"],
        samples=known(fetch["b"]),
        cpu_ns=fetch["c"],
        other_cpu_ns=_null(delay, "a"),
        delay_ns=_null(delay, "b"),
        read_bytes=_null(io, "a"),
        storage_bytes=_null(io, "b"),
        failed=flag(fetch, fmt.FAILED),
        profiled=flag(fetch, fmt.PROFILED),
        read_calls=_null(io, "c"),
    )


def _collections(process: int, notes: NoteLines, r: Records) -> pl.DataFrame:
    return frame(
        "collections",
        **span(process, r),
        generation=r["a"],
        let_go=r["b"],
        asked=r["extra"] != 0,
        asked_at=[notes.texts.get(i) for i in r["c"].tolist()],
    )


def _stacks(process: int, r: Records) -> pl.DataFrame:
    return frame(
        "stacks",
        **mark(process, r),
        stack=r["a"],
        weight_ns=r["b"],
        lateness_ns=r["c"],
        blocked=flag(r, fmt.BLOCKED),
        device_idle=_device_idle(r),
    )


def _slow_samples(process: int, r: Records) -> pl.DataFrame:
    return frame("slow_samples", **span(process, r), index=known(r["a"]), usual_ns=r["b"], batch=r["c"])


def _backward_cpu(process: int, r: Records) -> pl.DataFrame:
    return frame(
        "backward_cpu",
        **span(process, r),
        cpu_ns=r["a"],
        delay_ns=known(r["b"]),
        synced=[_SYNCED.get(int(each)) for each in r["extra"]],
        is_anew=[int(each) == fmt.SYNCED_ANEW for each in r["extra"]],
    )


def _graphs(process: int, r: Records) -> pl.DataFrame:
    kept = r["flags"].astype(np.int64)
    kept[r["extra"] == 0] = -1
    return frame("graphs", process=process, time_ns=r["t0"], nodes=r["a"], parameters=known(r["b"]), values=known(r["c"]), kept=known(kept))


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


def _spans(process: int, notes: NoteLines, of: Kinds) -> pl.DataFrame:
    return pl.concat(
        (
            _span_rows(process, of(fmt.BACKWARD), kind="backward"),
            _span_rows(process, r := of(fmt.SHUTDOWN), kind="shutdown", iterator=known(r["a"], fmt.NO_ITERATOR)),
            _forwards(process, of(fmt.FORWARD)),
            _saves(process, notes, of(fmt.SAVE)),
            _named_spans(process, notes, of(fmt.SPAN)),
        )
    )


def _span_rows(process: int, r: Records, kind: str, **filled: Any) -> pl.DataFrame:
    """Rows of `spans`; a column that records of this kind do not fill is null."""
    columns = span(process, r) | {"kind": [kind] * len(r)} | filled
    nothing = [None] * len(r)
    return frame("spans", **{name: columns.get(name, nothing) for name in TABLE["spans"].schema})


def _forwards(process: int, r: Records) -> pl.DataFrame:
    modes = {"gradients": ~flag(r, fmt.NO_GRADIENT), "evaluating": flag(r, fmt.EVALUATING)}
    return _span_rows(process, r, kind="forward", samples=known(r["a"]), module=known(r["b"]), bytes=known(r["c"]), **modes)


def _saves(process: int, notes: NoteLines, r: Records) -> pl.DataFrame:
    called_from = [notes.texts.get(i) if known else None for i, known in zip(r["c"].tolist(), r["extra"].tolist(), strict=True)]
    places = [place.rpartition(":") if place else None for place in called_from]
    return _span_rows(
        process,
        r,
        kind="save",
        name=[notes.texts.get(i) for i in r["b"].tolist()],
        bytes=known(r["a"]),
        file=[place and place[0] for place in places],
        line=[int(place[2]) if place and place[2].isdigit() else None for place in places],
    )


def _named_spans(process: int, notes: NoteLines, r: Records) -> pl.DataFrame:
    texts = r["a"].tolist()
    places = [notes.places.get(i) for i in texts]
    return _span_rows(
        process,
        r,
        kind="span",
        name=[notes.texts.get(i) for i in texts],
        stage=[STAGES[i] if 0 <= i < len(STAGES) else None for i in r["b"].tolist()],
        file=[place and place[0] for place in places],
        line=[place and place[1] for place in places],
    )


def _device_idle(stacks: Records) -> pl.Series:
    idle = pl.Series(flag(stacks, fmt.DEVICE_IDLE))
    return idle.set(~(idle | pl.Series(flag(stacks, fmt.DEVICE_BUSY))), None)
