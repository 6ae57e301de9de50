"""The records of one process: what its .rec file holds, as arrays, and the columns that are made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.health import Health, HealthKind
from slowstep.record.writing import format as fmt
from slowstep.sources._recording.sane import is_sane
from slowstep.timeline.schema import TABLE

Records = NDArray[Any]

DTYPE = np.dtype(
    {
        "names": list(fmt.FIELDS),
        "formats": ["<u8", "<u8", "<i8", "<i8", "<i8", "<u4", "<u2", "u1", "u1"],
        "offsets": [0, 8, 16, 24, 32, 40, 44, 46, 47],
        "itemsize": fmt.RECORD_BYTES,
    }
)
_STEP = np.dtype(
    {
        "names": ["t0", "t1", "waited", "to_backward", "backward", "to_update", "batch", "iterator", "thread", "samples", "optimizer"],
        "formats": ["<u8", "<u8", *["<u4"] * 7, "<u2", "u1"],
        "offsets": [0, 8, 16, 20, 24, 28, 32, 36, 40, 44, 46],
        "itemsize": fmt.RECORD_BYTES,
    }
)


TORN_RECORDS = HealthKind("torn-records", "notice", "the process was ended in the middle of writing them; all others are whole")
MALFORMED_RECORDS = HealthKind(
    "malformed-records",
    "data_loss",
    "the recording is damaged: another program wrote into its file or cut it, and these records were left out. Record again",
)
# Times are signed numbers of 64 bits in all tables.
LATEST_NS = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """Records of a file that cannot be used: not written to their end, or not as any recorder writes them."""

    torn: int
    malformed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenRecords:
    """What a file holds: its finished records, in the order in which each thread sent them, and how many events they are more than what
    its writer has counted, who counts a whole step as one.

    `slots` are records up to the last that was begun, as they stand in the file; behind them are zero bytes where it `is_reserved`
    ahead. `counts_only`: of some steps the recorder has only kept the number.
    """

    records: Records
    uncounted: int
    lost: Lost
    slots: int = 0
    is_reserved: bool = False
    counts_only: bool = False


def read_records(path: Path, *, latest_ns: int = LATEST_NS) -> WrittenRecords:
    """The finished records of a file, and what of it cannot be used: what ends later than `latest_ns` is none of the recorder's."""
    if not path.exists():
        return WrittenRecords(records=np.zeros(0, DTYPE), uncounted=0, lost=Lost(torn=0, malformed=0))
    raw = np.fromfile(path, dtype=np.uint8)
    records = raw[: len(raw) // fmt.RECORD_BYTES * fmt.RECORD_BYTES].view(DTYPE)
    finished = records["kind"] != 0
    slots = _slots(raw, finished)
    sane = is_sane(records) & (records["t1"] <= latest_ns) & ~_is_broken_step(records)
    usable = records[finished & sane]
    parts = steps_as_records(usable)
    return WrittenRecords(
        records=parts,
        uncounted=len(parts) - len(usable),
        lost=_lost(usable, unfinished=slots - int(finished.sum()), impossible=int((finished & ~sane).sum())),
        slots=slots,
        is_reserved=len(raw) >= (slots + 1) * fmt.RECORD_BYTES,
        counts_only=bool((usable["kind"] == fmt.TOTALS).any()),
    )


def _slots(raw: NDArray[np.uint8], finished: NDArray[np.bool_]) -> int:
    """How many records there are up to the last that was begun: behind it are zero bytes."""
    begun = finished.copy()
    begun[~finished] = raw[: len(finished) * fmt.RECORD_BYTES].reshape(-1, fmt.RECORD_BYTES)[~finished].any(axis=1)
    return int(np.flatnonzero(begun)[-1]) + 1 if begun.any() else 0


def _lost(usable: Records, *, unfinished: int, impossible: int) -> Lost:
    """What of the unfinished records was being written as the process ended. That is one of each thread at most: where there are more of
    them, or records that none writes, the rest of the file was moved or written over.
    """
    is_damaged = impossible > 0 or unfinished > max(len(np.unique(usable["thread"])), 1)
    return Lost(torn=0, malformed=impossible + unfinished) if is_damaged else Lost(torn=unfinished, malformed=0)


def steps_as_records(records: Records) -> Records:
    """The records with each STEP's three in its place; then all stand in the order in which they ended."""
    is_step = records["kind"] == fmt.STEP
    if not is_step.any():
        return records
    steps = records[is_step].view(_STEP)
    began = steps["t0"]
    backward = began + steps["to_backward"]
    asked = {"a": steps["iterator"], "b": steps["batch"], "c": steps["samples"], "extra": fmt.READY_UNKNOWN}
    parts = [
        records[~is_step],
        _part(steps, fmt.WAIT, began, began + steps["waited"], **asked),
        _part(steps, fmt.BACKWARD, backward, backward + steps["backward"]),
        _part(steps, fmt.UPDATE, began + steps["to_update"], steps["t1"], a=steps["optimizer"]),
    ]
    together = np.concatenate(parts)
    return together[np.argsort(together["t1"], kind="stable")]


def _is_broken_step(records: Records) -> NDArray[np.bool_]:
    """Which records are of steps with parts that end after the step."""
    steps, ns = records.view(_STEP), records["t1"] - records["t0"]
    ended = np.maximum(steps["to_backward"].astype(np.int64) + steps["backward"], np.maximum(steps["waited"], steps["to_update"]))
    return np.asarray((records["kind"] == fmt.STEP) & (ended > ns.astype(np.int64)))


def _part(steps: Records, kind: int, t0: Records, t1: Records, **fields: Any) -> Records:
    part = np.zeros(len(steps), DTYPE)
    part["t0"], part["t1"], part["thread"], part["kind"] = t0, t1, steps["thread"], kind
    for name, values in fields.items():
        part[name] = values
    return part


def losses(lost: Lost) -> Iterable[Health]:
    """What of a file could not be used, as health."""
    if lost.torn:
        yield TORN_RECORDS(lost.torn)
    if lost.malformed:
        yield MALFORMED_RECORDS(lost.malformed)


def frame(table: str, **columns: Any) -> pl.DataFrame:
    """A declared table from its columns, arrays or one value for all rows."""
    length = max((len(values) for values in columns.values() if not np.isscalar(values)), default=0)
    if not length:
        return TABLE[table].empty()
    series = []
    for name, kind in TABLE[table].schema.items():
        values = columns[name]
        if np.isscalar(values):
            values = np.full(length, values)
        series.append(pl.Series(name, values, strict=False).cast(kind))
    return pl.DataFrame(series)


def span(process: int, records: Records) -> dict[str, Any]:
    """The columns of a stretch of a thread."""
    return {"process": process, "thread": records["thread"], "start_ns": records["t0"], "end_ns": records["t1"]}


def mark(process: int, records: Records) -> dict[str, Any]:
    """The columns of an instant of a thread."""
    return {"process": process, "thread": records["thread"], "time_ns": records["t0"]}


def known(values: NDArray[np.int64], unknown: int = -1) -> pl.Series:
    """The values, null where the recorder wrote `unknown`."""
    series = pl.Series(values.astype(np.int64))
    return series.set(series == unknown, None)


def flag(records: Records, flag: int) -> NDArray[np.bool_]:
    """Which records have a flag."""
    return np.asarray((records["flags"] & flag) != 0)
