"""The launcher's readings of the machine as tables. -1 in a reading is unknown, or no limit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from slowstep.record.writing import format as fmt
from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.records import Records
from slowstep.timeline.schema import TABLE

# Columns of a table by the field that holds each, of the kind named. A trailing "?" marks where -1 is null.
_PLAIN: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "readings": (fmt.READING_CPU, {"tree_cpu_ns": "a", "busy_cpu_ns": "b", "stolen_cpu_ns": "c"}),
    "launcher_costs": (fmt.READING_COST, {"cpu_ns": "a"}),
    "run_delays": (fmt.READING_DELAY, {"delay_ns": "a", "watched": "b", "threads": "c"}),
    "tree_io": (fmt.READING_IO, {"called_bytes": "a", "read_bytes": "b", "written_bytes": "c"}),
    "tree_memory": (fmt.READING_RSS, {"resident_bytes": "a", "own_bytes": "b", "largest_bytes": "c", "largest_pid": "thread"}),
    "tree_faults": (fmt.READING_FAULTS, {"minor": "a", "major": "b"}),
    "machine_times": (fmt.READING_TIMES, {"idle_ns": "a", "storage_ns": "b"}),
    "throttles": (fmt.READING_THROTTLE, {"periods": "a", "throttled": "b", "throttled_ns": "c"}),
    "affinities": (fmt.READING_AFFINITY, {"cores": "a", "main_cores": "b", "which": "c", "pid": "thread"}),
    "group_memory": (fmt.READING_GROUP_MEMORY, {"used_bytes": "a", "limit_bytes": "b?", "droppable_bytes": "c?"}),
    "machine_memory": (fmt.READING_MEMORY, {"total_bytes": "a", "available_bytes": "b"}),
    "swap": (fmt.READING_SWAP, {"free_bytes": "a", "in_bytes": "b", "out_bytes": "c"}),
}
# Kinds of one moment make one row of an accelerator.
_OF_DEVICE: Mapping[int, Mapping[str, str]] = {
    fmt.READING_GPU_USE: {"busy_percent": "a?", "memory_busy_percent": "b?", "used_bytes": "c?"},
    fmt.READING_GPU_CLOCK: {"sm_mhz": "a?", "memory_mhz": "b?", "state": "c?"},
    fmt.READING_GPU_LIMIT: {"lowered_by": "a?", "power_mw": "b?", "temperature_c": "c?"},
    fmt.READING_GPU_LINK: {"link_generation": "a?", "link_lanes": "b?"},
    fmt.READING_GPU_COPIED: {"received_per_s": "a?", "sent_per_s": "b?"},
    fmt.READING_GPU_TENANTS: {"own_processes": "a", "other_processes": "b", "others_bytes": "c?"},
}
# Sums that the launcher makes so that they never fall, by kind. The kernel's own counters may, by as little as it corrects them.
_NEVER_FALL: Mapping[int, tuple[str, ...]] = {
    fmt.READING_CPU: ("a",),
    fmt.READING_COST: ("a",),
    fmt.READING_DELAY: ("a",),
    fmt.READING_IO: ("a", "b", "c"),
    fmt.READING_FAULTS: ("a", "b"),
}


def sound_readings(records: Records) -> Records:
    """The launcher's records without what the launcher cannot have written: of two readings of one thing at one instant the first, and
    those by which a sum that never falls would have fallen.
    """
    # Of the largest process there is one reading, whichever that is.
    thing = np.where(records["kind"] == fmt.READING_RSS, 0, records["thread"])
    order = np.lexsort((records["t0"], thing, records["kind"]))
    key = np.stack((records["kind"], thing, records["t0"].astype(np.int64)))[:, order]
    is_sound = np.ones(len(records), np.bool_)
    is_sound[order[:-1][(key[:, :-1] == key[:, 1:]).all(axis=0)]] = False
    for kind, fields in _NEVER_FALL.items():
        for field in fields:
            at = order[(records["kind"][order] == kind) & is_sound[order]]
            is_sound[at] = False
            is_sound[at[_rising(records[field][at])]] = True
    return np.asarray(records[is_sound])


def _rising(values: Any) -> Any:
    """The places of as many values as possible of which each is at least the one before it."""
    if (np.diff(values) >= 0).all():
        return np.arange(len(values))
    ends: list[int] = []
    places: list[int] = []
    before: list[int | None] = []
    for place, value in enumerate(values.tolist()):
        length = bisect_right(ends, value)
        before.append(places[length - 1] if length else None)
        ends[length : length + 1], places[length : length + 1] = [value], [place]
    chosen: list[int] = []
    at: int | None = places[-1]
    while at is not None:
        chosen.append(at)
        at = before[at]
    return np.array(chosen[::-1])


def machine_tables(notes: NoteLines, records: Records) -> dict[str, pl.DataFrame]:
    """All tables of the machine; empty ones for what was not read, and for recordings older than the readings."""

    def of(kind: int) -> Records:
        return np.asarray(records[records["kind"] == kind])

    tables = {name: _table(name, of(kind), fields) for name, (kind, fields) in _PLAIN.items()}
    return tables | {
        "pressures": _pressures(of(fmt.READING_PRESSURE)),
        "quotas": _quotas(of(fmt.READING_QUOTA)),
        "disks": _disks(notes, of(fmt.READING_DISK)),
        "network": _network(of(fmt.READING_NETWORK)),
        "devices": _devices(notes),
        "device_readings": _device_readings(of),
    }


def _table(name: str, records: Records, fields: Mapping[str, str], **more: pl.Series) -> pl.DataFrame:
    if not len(records):
        return TABLE[name].empty()
    columns = {"time_ns": _series(records["t0"])} | {column: _field(records, field) for column, field in fields.items()} | more
    return pl.DataFrame([columns[column].cast(kind).alias(column) for column, kind in TABLE[name].schema.items()])


def _field(records: Records, field: str) -> pl.Series:
    values = _series(records[field.removesuffix("?")])
    return values.set(values == -1, None) if field.endswith("?") else values


def _series(values: Any) -> pl.Series:
    return pl.Series(np.asarray(values).astype(np.int64), dtype=pl.Int64)


def _pressures(records: Records) -> pl.DataFrame:
    records = records[records["thread"] < len(fmt.PRESSURES)]
    names = pl.Series([fmt.PRESSURES[index] for index in records["thread"].tolist()], dtype=pl.String)
    return _table("pressures", records, {"some_ns": "a", "full_ns": "b?"}, resource=names)


def _quotas(records: Records) -> pl.DataFrame:
    return _table("quotas", records, {}, cores=_field(records, "a?") / 1000)


def _disks(notes: NoteLines, records: Records) -> pl.DataFrame:
    named = {line["id"]: line["name"] for line in notes.of("disk")}
    names = pl.Series([named.get(index) for index in records["thread"].tolist()], dtype=pl.String)
    return _table("disks", records, {"read_bytes": "a", "written_bytes": "b", "busy_ns": "c"}, disk=names)


def _network(records: Records) -> pl.DataFrame:
    loopback = pl.Series(records["thread"] == 1, dtype=pl.Boolean)
    return _table("network", records, {"received_bytes": "a", "sent_bytes": "b"}, loopback=loopback)


def _devices(notes: NoteLines) -> pl.DataFrame:
    schema = TABLE["devices"].schema
    rows = {line["id"]: {column: line.get(column) for column in schema} | {"device": line["id"]} for line in notes.of("gpu")}
    return pl.DataFrame(list(rows.values()), schema=schema)


def _device_readings(of: Any) -> pl.DataFrame:
    schema = TABLE["device_readings"].schema
    read = {kind: of(kind) for kind in _OF_DEVICE}
    if not any(map(len, read.values())):
        return TABLE["device_readings"].empty()
    joined: pl.DataFrame | None = None
    for kind, fields in _OF_DEVICE.items():
        records = read[kind]
        columns = {"time_ns": _series(records["t0"]), "device": _series(records["thread"])}
        columns |= {column: _field(records, field) for column, field in fields.items()}
        part = pl.DataFrame([series.alias(column) for column, series in columns.items()])
        joined = part if joined is None else joined.join(part, on=["time_ns", "device"], how="full", coalesce=True)
    assert joined is not None
    return joined.select([pl.col(column).cast(kind) for column, kind in schema.items()]).sort("time_ns", "device")
