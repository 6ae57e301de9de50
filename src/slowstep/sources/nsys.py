"""Reads the SQLite export of an Nsight Systems report. Its tables and columns differ between versions: what is absent is unknown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from slowstep.errors import UnreadableInput
from slowstep.health import Health, HealthKind
from slowstep.sources._covered import covered_by_trace
from slowstep.sources._filled import clock_doubts, clock_of, filled, recorded_kinds, time_doubts
from slowstep.sources._gathered import Shelf, in_order
from slowstep.sources._nested import nested
from slowstep.sources._nsys import device as _nsys_device
from slowstep.sources._nsys import host as _nsys_host
from slowstep.sources._nsys.database import Database, opened
from slowstep.sources._nsys.rows import NsysRows, gather
from slowstep.sources._nsys.steps import marked_steps
from slowstep.sources._source import PLAIN, HowRead, Source
from slowstep.timeline.coverage import TRACED, UNSEEN, ShownWith
from slowstep.timeline.intervals import Ints
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace import TraceFacts

MAGIC: Final = b"SQLite format 3\x00"
REPORT_ENDINGS: Final = (".nsys-rep", ".qdrep")
EVENT_TABLES: Final = (*_nsys_device.TABLES, *_nsys_host.CALLS, _nsys_host.RANGES)
OWN_TABLES: Final = ("StringIds", "META_DATA_EXPORT", "META_DATA_CAPTURE", "ANALYSIS_DETAILS", *EVENT_TABLES)
# Ranks of a job run one program, and stages of a pipeline about as much of it each. A process with a smaller share of the kernels of the
# busiest one is a helper: it makes batches, or looks at a device once.
RANK_FROM: Final = 0.1
# Of processes that are left out, those that are named.
PROCESSES_SHOWN: Final = 5

DAMAGED_FILE: Final = HealthKind(
    "damaged-file", "data_loss", "the file is damaged or was cut off{where}; export the report again: {command}"
)
ABSENT_TABLES: Final = HealthKind("absent-tables", "notice", "the export has no {tables}; record with --trace=cuda,nvtx")
OTHER_PROCESSES: Final = HealthKind(
    "other-processes", "notice", "left out, since each ran less than {share:share} of the kernels of process {pid} ({kernels:,}): {named}"
)
ABSENT_NAMES: Final = HealthKind(
    "absent-names",
    "data_loss",
    "the export has no StringIds: no kernel and no call has a name, and nothing is recognised by names; export again: {command}",
)


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


def read(path: Path, how: HowRead = PLAIN) -> Timeline:
    """Read an export into a Timeline: that of the process `how.pid`, or of the one with most kernels.

    Rows travel in pieces. `how.memory_bytes` bounds what is kept of them until the tables are made. Raises UnreadableInput for a report
    that was not exported, an SQLite file without events, one too damaged, and a process that is not there.
    """
    with ExitStack() as stack, _export(path, how) as database:
        found = _processes(database)
        chosen = next((process for process in found if how.pid in (None, process.pid)), None)
        if how.pid is not None and chosen is None:
            there = ", ".join(str(process.pid) for process in found) or "none"
            raise UnreadableInput(f"{path} holds no process {how.pid} that ran kernels; it holds {there}.")
        return _timeline(path, database, chosen, found, how, stack)


def processes(path: Path) -> tuple[int, ...]:
    """The processes of an export that are ranks, by their ids: launchers start ranks in order. Empty where there are not two."""
    try:
        with _export(path, PLAIN) as database:
            ranks = tuple(sorted(process.pid for process in _ranks(_processes(database))))
    except UnreadableInput:
        return ()
    return ranks if len(ranks) > 1 else ()


@contextmanager
def _export(path: Path, how: HowRead) -> Iterator[Database]:
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

    def __init__(self, how: HowRead) -> None:
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
        raise UnreadableInput(f"{path} is not an SQLite file, so not an export of Nsight Systems. {_command(path)}")


def _command(path: Path) -> str:
    return f"nsys export --type sqlite --output {path.with_suffix('.sqlite')} {path.with_suffix('.nsys-rep')}"


def _require_events(path: Path, database: Database) -> None:
    if not any(name in database.columns for name in OWN_TABLES):
        tables = ", ".join(sorted(database.columns)[:5]) or "no table"
        raise UnreadableInput(f"{path} is an SQLite file, but not an export of Nsight Systems: it holds {tables}.")
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


def _ranks(found: Sequence[Process]) -> Sequence[Process]:
    """Those that run about as much as the busiest, which comes first."""
    return [process for process in found if process.kernels >= RANK_FROM * found[0].kernels]


def _pid(serialized: int) -> int:
    return serialized >> 24 & 0xFFFFFF


def _timeline(
    path: Path, database: Database, process: Process | None, running: Sequence[Process], how: HowRead, stack: ExitStack
) -> Timeline:
    strings = database.read("StringIds", {"id": "id"}, {"value": "value"}).unique("id", keep="first")
    rows = gather(database, process.serialized if process else None, strings, Shelf(stack, how.memory_bytes))
    first_ns = rows.first_ns()
    host, threads, steps, crossed = _host_tables(database, rows, strings, first_ns)
    device = _device_table(rows, first_ns)
    tables = {
        "trace_threads": threads,
        "trace_devices": filled("trace_devices", _nsys_device.device_facts(database, device["device"], process.pid if process else None)),
        "host_events": host,
        "device_events": device,
        "marked_steps": steps,
    }
    health = [*_nsys_device.doubts(rows.counts), *rows.doubts(), *crossed, *_losses(path, database, rows, running)]
    health += [*_absent_names(path, database, strings), *clock_doubts(host, device)]
    run = RunFacts(name=path.name, command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    facts = _facts(path, database, tables, first_ns, complete=not database.damaged and not database.cut_off)
    coverage = covered_by_trace(COVERAGE, tables)
    return Timeline(source="nsys", tables=tables, processes=(), run=run, health=tuple(health), trace=facts, coverage=coverage)


def _host_tables(
    database: Database, rows: NsysRows, strings: pl.DataFrame, first_ns: int
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, list[Health]]:
    """Host events, threads and steps, and what does not nest."""
    hosts = rows.hosts
    serialized = hosts.column("thread").fill_null(0).to_numpy()
    taken = {name: hosts.column(name) for name in ("start_ns", "end_ns", "kind")}
    start, end = taken["start_ns"].to_numpy(), taken["end_ns"].to_numpy()
    kept, crossed = nested(serialized, start, end, _nsys_host.may_go(taken["kind"], hosts))
    order = in_order(start, kept)
    known = np.unique(serialized if kept is None else serialized[kept])
    taken["thread"] = pl.Series(np.searchsorted(known, serialized).astype(np.int32))
    # What is not held here any more makes room while the table is made.
    del serialized, kept, start, end
    host = hosts.finished(order, first_ns, taken)
    steps = marked_steps(rows.steps()).with_columns(pl.col("thread").fill_null(0))
    of_steps = pl.Series(np.searchsorted(known, steps["thread"].to_numpy()).astype(np.int32))
    known_steps = pl.col("thread").is_in(known.tolist())
    steps = steps.with_columns(pl.when(known_steps).then(of_steps).alias("thread"), pl.col("start_ns", "end_ns") - first_ns)
    return host, _threads(database, known, strings), filled("marked_steps", steps), crossed


def _device_table(rows: NsysRows, first_ns: int) -> pl.DataFrame:
    devices = rows.devices
    taken = {name: devices.column(name) for name in ("device", "start_ns")}
    taken["stream"] = _nsys_device.unique_streams(taken["device"], devices.column("stream"), devices.column("context"))
    return devices.finished(in_order(taken["start_ns"].to_numpy()), first_ns, taken)


def _threads(database: Database, known: Ints, strings: pl.DataFrame) -> pl.DataFrame:
    """The table of threads from the export's ids of them, in their order."""
    names = database.read("ThreadNames", {"serialized": "globalTid", "name_id": "nameId"})
    named = names.join(strings, left_on="name_id", right_on="id").unique("serialized", keep="last").rename({"value": "name"})
    threads = pl.DataFrame({"serialized": known}, schema={"serialized": pl.Int64}).with_row_index("thread")
    threads = threads.join(named, on="serialized", how="left", maintain_order="left")
    told = pl.col("serialized") != 0
    facts = threads.with_columns(
        pl.when(told).then(pl.col("serialized") // 2**24 % 2**24).alias("pid"),
        pl.when(told).then(pl.col("serialized") % 2**24).alias("tid"),
    )
    return filled("trace_threads", facts)


def _losses(path: Path, database: Database, rows: NsysRows, running: Sequence[Process]) -> list[Health]:
    health = time_doubts(rows.counts["no times"])
    if database.damaged or database.cut_off:
        where = f" in {', '.join(sorted(database.damaged))}" if database.damaged else ""
        health.append(DAMAGED_FILE(max(len(database.damaged), 1), where=where, command=_command(path)))
    health += _helpers(running)
    absent = [table for table in (_nsys_device.KERNELS, _nsys_host.CALLS[0]) if table not in database.columns]
    if absent:
        health.append(ABSENT_TABLES(len(absent), tables=" and no ".join(absent)))
    return health


def _helpers(running: Sequence[Process]) -> list[Health]:
    """What is said of processes with kernels that are no ranks."""
    ranks = _ranks(running)
    others = [process for process in running if process not in ranks]
    if not others:
        return []
    named = ", ".join(f"{process.pid} ({process.kernels:,})" for process in others[:PROCESSES_SHOWN])
    more = f" and {len(others) - PROCESSES_SHOWN} more" if len(others) > PROCESSES_SHOWN else ""
    first = running[0]
    return [OTHER_PROCESSES(len(others), share=RANK_FROM, pid=first.pid, kernels=first.kernels, named=f"{named}{more}")]


def _absent_names(path: Path, database: Database, strings: pl.DataFrame) -> list[Health]:
    """Whether the table that all names are looked up in is not there. One that is damaged is counted as such."""
    if not strings.is_empty() or "StringIds" in database.damaged:
        return []
    return [ABSENT_NAMES(1, command=_command(path))]


def _facts(path: Path, database: Database, tables: dict[str, pl.DataFrame], first_ns: int, *, complete: bool) -> TraceFacts:
    host, device = tables["host_events"], tables["device_events"]
    ranges = {"annotations"} if _nsys_host.RANGES in database.columns else set()
    recorded = recorded_kinds(tables) | ranges
    export = database.pairs("META_DATA_EXPORT", "name", "value")
    named = database.pairs("TARGET_INFO_SYSTEM_ENV", "name", "value")
    return TraceFacts(
        format="Nsight Systems export",
        files=(str(path),),
        bytes=path.stat().st_size,
        events=len(host) + len(device),
        recorded=recorded,
        framework="pytorch" if "operators" in recorded else None,
        profiler="nsys",
        tells_users_names=True,
        schema_version=export.get("EXPORT_SCHEMA_VERSION"),
        host=named.get("Hostname"),
        vendor="nvidia",
        complete=complete,
        clock_ns=clock_of(tables, first_ns + _session_began_ns(database)),
    )


def _session_began_ns(database: Database) -> int:
    """The time, ns since 1970, from which the export's times count; 0 where it does not tell."""
    began = database.read("TARGET_INFO_SESSION_START_TIME", {"utc": "utcEpochNs"})["utc"].drop_nulls()
    return int(began[0]) if len(began) else 0


COVERAGE: Final = {
    "steps": replace(TRACED, shown_with=ShownWith.NVTX_RANGE),
    "host": TRACED,
    "functions": UNSEEN,
    "batches": UNSEEN,
    "device": TRACED,
    "dispatches": TRACED,
    "allocations": UNSEEN,
    "machine": UNSEEN,
}
SOURCE = Source(
    name="nsys",
    reads="SQLite exports of Nsight Systems",
    sniff=sniff,
    read=read,
    coverage=COVERAGE,
    processes=processes,
    endings=(".sqlite",),
)
