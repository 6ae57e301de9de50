"""Reads the SQLite export of an Nsight Systems report. Its tables and columns differ between versions: what is absent is unknown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from slowstep.errors import UnreadableInput
from slowstep.health import Health
from slowstep.sources._filled import clock_doubts, filled, timed
from slowstep.sources._nested import nested
from slowstep.sources._nsys import device as _nsys_device
from slowstep.sources._nsys import host as _nsys_host
from slowstep.sources._nsys.database import Database, opened
from slowstep.sources._nsys.steps import marked_steps
from slowstep.sources._source import PLAIN, Reading, Source
from slowstep.timeline.timeline import RunFacts, Timeline
from slowstep.timeline.trace import TraceFacts

MAGIC: Final = b"SQLite format 3\x00"
REPORT_ENDINGS: Final = (".nsys-rep", ".qdrep")
EVENT_TABLES: Final = (*_nsys_device.TABLES, *_nsys_host.CALLS, _nsys_host.RANGES)
OWN_TABLES: Final = ("StringIds", "META_DATA_EXPORT", "META_DATA_CAPTURE", "ANALYSIS_DETAILS", *EVENT_TABLES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process in an export: `serialized` is its id there, `kernels` how many it ran."""

    serialized: int
    pid: int
    kernels: int


def sniff(head: bytes, path: Path) -> bool:
    """An SQLite file with tables of Nsight Systems (or too damaged to tell), or a report that was not exported yet."""
    if path.is_dir():
        return False
    if not head.startswith(MAGIC):
        return path.name.endswith(REPORT_ENDINGS)
    try:
        with opened(path, _unheard) as database:
            return any(name in database.columns for name in OWN_TABLES)
    except (sqlite3.Error, OSError):
        return True


def read(path: Path, how: Reading = PLAIN) -> Timeline:
    """Read an export into a Timeline: that of the process with most kernels, where it holds several (health says so).

    Rows travel in chunks but the tables are kept, which takes about four bytes of memory per byte of the file: `how.memory_bytes` below
    that is not obeyed. Raises UnreadableInput for a report that was not exported, an SQLite file without events, and one too damaged.
    """
    return read_process(path, None, how)


def processes(path: Path) -> tuple[Process, ...]:
    """The processes of an export that ran kernels, most kernels first; empty where it does not tell. Raises UnreadableInput."""
    with _export(path, PLAIN) as database:
        return _processes(database)


def read_process(path: Path, pid: int | None, how: Reading = PLAIN) -> Timeline:
    """Read one process of an export, as `read` does; None is the one with most kernels. Raises UnreadableInput, also for an unknown pid."""
    with _export(path, how) as database:
        found = _processes(database)
        chosen = next((process for process in found if pid in (None, process.pid)), None)
        if pid is not None and chosen is None:
            there = ", ".join(str(process.pid) for process in found) or "none"
            raise UnreadableInput(f"{path} holds no process {pid} that ran kernels; it holds {there}.")
        return _timeline(path, database, chosen, len(found))


@contextmanager
def _export(path: Path, how: Reading) -> Iterator[Database]:
    """The opened export. Whatever SQLite finds wrong with it becomes UnreadableInput."""
    progress = _Progress(how)
    try:
        with path.open("rb") as file:
            _require_exported(path, file.read(len(MAGIC)))
        with opened(path, progress.read) as database:
            _require_events(path, database)
            progress.total = sum(database.rows(table) for table in (*EVENT_TABLES, *_nsys_host.OVERHEAD, "StringIds"))
            yield database
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except sqlite3.Error as error:
        raise UnreadableInput(f"{path} is too damaged to be read ({error}). Export the report again: {_command(path)}") from error


class _Progress:
    """Turns rows read into a share for `how.progress`."""

    def __init__(self, how: Reading) -> None:
        self.total = 0
        self._done = 0
        self._progress = how.progress

    def read(self, rows: int) -> None:
        """So many more rows were read."""
        self._done += rows
        if self.total:
            self._progress(min(self._done / self.total, 1.0))


def _unheard(rows: int) -> None:
    """Nobody wants to know."""


def _require_exported(path: Path, head: bytes) -> None:
    if head == b"":
        raise UnreadableInput(f"{path} is empty. {_command(path)}")
    if head != MAGIC and path.name.endswith(REPORT_ENDINGS):
        raise UnreadableInput(
            f"{path} is a report of Nsight Systems, which only its own tools can read. Analyze an export of it: {_command(path)}"
        )
    if head != MAGIC:
        raise UnreadableInput(f"{path} is no SQLite file, so no export of Nsight Systems. {_command(path)}")


def _command(path: Path) -> str:
    return f"nsys export --type sqlite --output {path.with_suffix('.sqlite')} {path.with_suffix('.nsys-rep')}"


def _require_events(path: Path, database: Database) -> None:
    if not any(name in database.columns for name in OWN_TABLES):
        tables = ", ".join(sorted(database.columns)[:5]) or "no table"
        raise UnreadableInput(f"{path} is an SQLite file, but no export of Nsight Systems: it holds {tables}.")
    if not any(database.has(table, "start") and database.rows(table) for table in EVENT_TABLES):
        raise UnreadableInput(
            f"{path} holds neither CUDA nor NVTX events. Record with them: nsys profile --trace=cuda,nvtx,osrt python train.py"
        )


def _processes(database: Database) -> tuple[Process, ...]:
    kernels: dict[int, int] = {}
    for table in (_nsys_device.KERNELS, _nsys_device.GRAPHS):
        for serialized, count in database.totals(table, "globalPid").items():
            kernels[serialized] = kernels.get(serialized, 0) + count
    found = [Process(serialized=key, pid=_pid(key), kernels=count) for key, count in kernels.items()]
    return tuple(sorted(found, key=lambda process: (-process.kernels, process.serialized)))


def _pid(serialized: int) -> int:
    return serialized >> 24 & 0xFFFFFF


def _timeline(path: Path, database: Database, process: Process | None, running: int) -> Timeline:
    own = process.serialized if process else None
    strings = database.read("StringIds", {"id": "id"}, {"value": "value"}).unique("id", keep="first")
    device, health = _nsys_device.device_events(database, own, strings)
    device, bad_device = timed(device)
    host, bad_host, steps, more = _host(database, own, strings, device)
    health += more + _losses(path, database, bad_device + bad_host, running, process) + clock_doubts(host, device)
    first_ns = min((int(frame["start_ns"].min()) for frame in (host, device) if len(frame)), default=0)  # type: ignore[arg-type]
    threads, host, steps = _threads(database, host, steps)
    tables = {
        "trace_threads": threads,
        "trace_devices": filled("trace_devices", _nsys_device.device_facts(database, device["device"], process.pid if process else None)),
        "host_events": filled("host_events", _from(first_ns, host).sort("start_ns", maintain_order=True)),
        "device_events": filled("device_events", _from(first_ns, device).sort("start_ns", maintain_order=True)),
        "marked_steps": filled("marked_steps", _from(first_ns, steps)),
    }
    run = RunFacts(name=path.name, command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    facts = _facts(path, database, tables, complete=not database.damaged and not database.cut_off)
    return Timeline(source="nsys", tables=tables, processes=(), run=run, health=tuple(health), trace=facts)


def _host(
    database: Database, own: int | None, strings: pl.DataFrame, device: pl.DataFrame
) -> tuple[pl.DataFrame, int, pl.DataFrame, list[Health]]:
    """All host events, how many had no sane times, the marked steps, and what is doubtful."""
    calls, bad_calls = timed(_nsys_host.calls(database, own, strings))
    ends = [int(frame["end_ns"].max()) for frame in (calls, device) if len(frame)]  # type: ignore[arg-type]
    ranges, health = _nsys_host.ranges(database, own, strings, max(ends, default=0))
    ranges, bad_ranges = timed(ranges)
    overhead, bad_overhead = timed(_nsys_host.overhead(database, own, strings))
    steps = marked_steps(ranges)
    events = pl.concat([calls, ranges, overhead], how="diagonal_relaxed").with_columns(pl.col("thread").fill_null(0))
    events, crossed = nested(events, _nsys_host.may_go())
    return events, bad_calls + bad_ranges + bad_overhead, steps, [*health, *crossed]


def _from(first_ns: int, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("start_ns") - first_ns, pl.col("end_ns") - first_ns)


def _threads(database: Database, host: pl.DataFrame, steps: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The table of threads, and the frames with indices into it in place of the export's thread ids."""
    names = database.read("ThreadNames", {"serialized": "globalTid", "name_id": "nameId"})
    strings = database.read("StringIds", {"name_id": "id"}, {"name": "value"})
    named = names.join(strings, on="name_id").unique("serialized", keep="last")
    threads = host.select(pl.col("thread").alias("serialized")).unique().sort("serialized").with_row_index("thread")
    threads = threads.with_columns(pl.col("thread").cast(pl.Int32)).join(named, on="serialized", how="left", maintain_order="left")
    index = threads.select(pl.col("serialized"), pl.col("thread").alias("index"))
    host, steps = (_indexed(frame, index) for frame in (host, steps))
    known = pl.col("serialized") != 0
    facts = threads.with_columns(
        pl.when(known).then(pl.col("serialized") // 2**24 % 2**24).alias("pid"),
        pl.when(known).then(pl.col("serialized") % 2**24).alias("tid"),
    )
    return filled("trace_threads", facts), host, steps


def _indexed(frame: pl.DataFrame, index: pl.DataFrame) -> pl.DataFrame:
    joined = frame.join(index, left_on="thread", right_on="serialized", how="left", maintain_order="left")
    return joined.drop("thread").rename({"index": "thread"})


def _losses(path: Path, database: Database, bad_times: int, running: int, process: Process | None) -> list[Health]:
    health = []
    if bad_times:
        remedy = "their times are missing or end before they begin; they are left out: record again if there are many"
        health.append(Health(name="events-without-times", severity="data_loss", count=bad_times, remedy=remedy))
    if database.damaged or database.cut_off:
        where = f" in {', '.join(sorted(database.damaged))}" if database.damaged else ""
        remedy = f"the file is damaged or was cut off{where}; export the report again: {_command(path)}"
        health.append(Health(name="damaged-file", severity="data_loss", count=max(len(database.damaged), 1), remedy=remedy))
    if running > 1 and process:
        remedy = f"the export holds several processes with kernels; only {process.pid}, which has most of them, is looked at"
        health.append(Health(name="other-processes", severity="notice", count=running - 1, remedy=remedy))
    absent = [table for table in (_nsys_device.KERNELS, _nsys_host.CALLS[0]) if table not in database.columns]
    if absent:
        remedy = f"the export has no {' and no '.join(absent)}; record with --trace=cuda,nvtx"
        health.append(Health(name="absent-tables", severity="notice", count=len(absent), remedy=remedy))
    return health


def _facts(path: Path, database: Database, tables: dict[str, pl.DataFrame], *, complete: bool) -> TraceFacts:
    host, device = tables["host_events"], tables["device_events"]
    kinds = set(host["kind"].unique().to_list())
    recorded = {
        "operators": "operator" in kinds,
        "runtime": bool(kinds & {"runtime", "driver"}),
        "device": len(device) > 0,
        "shapes": host["shapes"].null_count() < len(host),
        "annotations": _nsys_host.RANGES in database.columns,
    }
    export = database.pairs("META_DATA_EXPORT", "name", "value")
    named = database.pairs("TARGET_INFO_SYSTEM_ENV", "name", "value")
    return TraceFacts(
        format="Nsight Systems export",
        files=(str(path),),
        bytes=path.stat().st_size,
        events=len(host) + len(device),
        recorded=frozenset(name for name, there in recorded.items() if there),
        framework="pytorch" if recorded["operators"] else None,
        schema_version=export.get("EXPORT_SCHEMA_VERSION"),
        host=named.get("Hostname"),
        vendor="nvidia",
        complete=complete,
    )


SOURCE = Source(name="nsys", sniff=sniff, read=read)
