"""Reads XPlane files (`.xplane.pb`) of TensorFlow's and JAX's profilers, alone or in a TensorBoard log folder."""

from __future__ import annotations

import mmap
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from slowstep.errors import UnreadableInput
from slowstep.health import Health, HealthKind
from slowstep.sources._covered import covered_by_trace
from slowstep.sources._filled import clock_doubts, clock_of, filled, recorded_kinds, time_doubts, timed
from slowstep.sources._gathered import Shelf, in_order
from slowstep.sources._nested import nested
from slowstep.sources._source import PLAIN, HowRead, Source
from slowstep.sources._xplane import device as _xplane_device
from slowstep.sources._xplane import host as _xplane_host
from slowstep.sources._xplane.files import XplaneFiles, find, is_xplane
from slowstep.sources._xplane.for_whom import handed_work
from slowstep.sources._xplane.handed import COLUMNS as HANDED
from slowstep.sources._xplane.handed import handed_rows
from slowstep.sources._xplane.plane import Line, Plane
from slowstep.sources._xplane.programs import compute_gradients, program_name, programs
from slowstep.sources._xplane.rows import XplaneRows
from slowstep.sources._xplane.wire import hostnames, is_whole, planes
from slowstep.timeline.coverage import TRACED, UNSEEN, ShownWith
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace import TraceFacts
from slowstep.units import format_count

JAX, TENSORFLOW = "jax", "tensorflow"
# Lines without a thread id of the operating system have a number that was drawn at random.
LARGEST_THREAD_ID: Final = 2**32
# What planes say of the run.
FACTS: Final = ("jax_version", "process_id", "profile_start_time")
# Ranges that only one of the frameworks writes.
_FRAMEWORK_RANGES: Final = {JAX: r"^PjitFunction\(", TENSORFLOW: r"^(?:Profiled batch|EagerExecute|ExecutorState::Process)$"}

DAMAGED_PLANES: Final = HealthKind(
    "damaged-planes",
    "data_loss",
    "the file is damaged or was cut off; what comes before is used: copy it again, or profile again",
)
UNNAMED_EVENTS: Final = HealthKind(
    "unnamed-events",
    "data_loss",
    "the names of these events are missing from the file, so that steps, operators and calls among them are not recognised",
)
OTHER_HOSTS: Final = HealthKind("other-hosts", "notice", "only {file} is looked at; the run has more hosts: {others}")
OTHER_RUNS: Final = HealthKind("other-runs", "info", "only the newest run, {newest}, is looked at; name another one's folder to analyze it")


def sniff(head: bytes, path: Path) -> bool:
    """An XPlane file, by its name or its first bytes; or a folder that holds one as TensorBoard keeps them."""
    return is_xplane(head, path)


def read(path: Path, how: HowRead = PLAIN) -> Timeline:
    """Read an XPlane file, or the newest run of a log folder (of several hosts the first), into a Timeline.

    Events are decoded some at a time. `how.memory_bytes` bounds what is kept of them until the tables are made. Raises UnreadableInput
    where there is no such file, or nothing of it can be read.
    """
    found = find(path)
    if found is None:
        raise UnreadableInput(f"{path} holds no .xplane.pb file. A log folder has them in plugins/profile/<run>/.")
    try:
        with found.file.open("rb") as file:
            if not file.read(1):
                raise UnreadableInput(f"{found.file} is empty. Profile again, and let the profiler stop before the process ends.")
            # Left to be closed with its last part: one may still be held where reading ends early.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with ExitStack() as stack:
            return _timeline(found, mapped, how, stack)
    except OSError as error:
        raise UnreadableInput(f"{found.file} cannot be read: {error.strerror or error}.") from error


def _timeline(found: XplaneFiles, mapped: mmap.mmap, how: HowRead, stack: ExitStack) -> Timeline:
    data = memoryview(mapped)
    read = XplaneRows(Shelf(stack, how.memory_bytes))
    for raw in planes(data, lambda: _give_back(mapped)):
        read.counts["planes"] += 1
        _take(read, Plane(raw))
        read.counts["broken"] += not raw.whole
        how.progress(raw.end / len(data))
    if not read.counts["planes"]:
        raise UnreadableInput(f"{found.file} is not an XPlane file, or its beginning is damaged: nothing in it can be read. Profile again.")
    complete = not read.counts["broken"] and is_whole(data)
    if not read.counts["events"]:
        raise UnreadableInput(_nothing(found, read.counts["planes"], complete=complete))
    tables, health = _tables(read)
    health += _doubts(read, found, complete=complete)
    facts = _facts(found, tables, read, hostnames(data), len(data), complete=complete)
    name = found.file.name
    run = RunFacts(name=name, command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    coverage = covered_by_trace(COVERAGE, tables)
    return Timeline(source="xplane", tables=tables, processes=(), run=run, health=tuple(health), trace=facts, coverage=coverage)


def _nothing(found: XplaneFiles, count: int, *, complete: bool) -> str:
    """Why there is nothing to look at in some planes, and what to do."""
    if not complete:
        return (
            f"{found.file} is damaged or was cut off before the first event of a host thread or a device. Copy it again, or profile again "
            "and let the profiler stop before the process ends."
        )
    return f"{found.file} holds {format_count(count, 'plane')}, but no event of a host thread or a device. Profile again."


def _give_back(mapped: mmap.mmap) -> None:
    """What was read of a file counts as memory of this process until then, where the system says so."""
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _take(read: XplaneRows, plane: Plane) -> None:
    """Take over what a plane says. Planes that are neither of a host's threads nor of a device give facts only."""
    read.facts |= {name: value for name, value in plane.facts.items() if name in FACTS}
    read.programs |= programs(plane)
    device = _xplane_device.device_number(plane)
    if device is not None or _xplane_host.is_host(plane):
        read.words |= set(map(program_name, plane.words()))
    if device is not None:
        before = read.counts["events"]
        for events, doubtful in _xplane_device.device_events(plane, device):
            read.counts["events"] += len(events)
            read.counts["doubtful"] += doubtful
            read.add(read.devices, events)
        if read.counts["events"] > before:
            read.device_facts.append(_xplane_device.device_facts(plane, device))
        read.device_steps += _xplane_device.steps_of_device(plane)
    elif _xplane_host.is_host(plane):
        for line in plane.lines():
            _take_thread(read, line)


def _take_thread(read: XplaneRows, line: Line) -> None:
    thread, before = len(read.threads), read.counts["events"]
    for piece in line.pieces():
        events, steps = _xplane_host.host_events(piece, thread)
        read.counts["events"] += len(events)
        read.counts["unnamed"] += piece.unnamed()
        read.steps.append(steps)
        read.handed.append(handed_rows(piece, thread))
        read.add(read.hosts, events)
    if read.counts["events"] > before:
        read.threads.append({"thread": thread, "tid": line.id if 0 < line.id < LARGEST_THREAD_ID else None, "name": line.name or None})


def _tables(read: XplaneRows) -> tuple[dict[str, pl.DataFrame], list[Health]]:
    first_ns = min(read.first_ns, default=0)
    host, health = _host_table(read, first_ns)
    device = _device_events(read, first_ns)
    health += clock_doubts(host, device)
    health += _xplane_device.garbage(read.counts["doubtful"])
    health += time_doubts(read.counts["no times"])
    threads = pl.DataFrame(read.threads, schema={"thread": pl.Int32, "tid": pl.Int64, "name": pl.String})
    process = read.facts.get("process_id")
    tables = {
        "trace_threads": filled("trace_threads", threads.with_columns(pl.lit(process if isinstance(process, int) else None).alias("pid"))),
        "trace_devices": filled("trace_devices", _device_table(read.device_facts)),
        "host_events": host,
        "device_events": device,
        "marked_steps": filled("marked_steps", _from(first_ns, _steps(read))),
        "handed_work": filled("handed_work", _handed(read, first_ns)),
    }
    return tables, health


def _host_table(read: XplaneRows, first_ns: int) -> tuple[pl.DataFrame, list[Health]]:
    taken = {name: read.hosts.column(name) for name in ("thread", "start_ns", "end_ns", "kind")}
    may_go = ((taken["kind"] == kind).to_numpy() for kind in ("overhead", "annotation", "python", "operator"))
    thread, start, end = (taken[name].to_numpy() for name in ("thread", "start_ns", "end_ns"))
    kept, health = nested(thread, start, end, may_go)
    order = in_order(start, kept)
    # What is not held here any more makes room while the table is made.
    del kept, thread, start, end
    return read.hosts.finished(order, first_ns, taken), health


def _device_events(read: XplaneRows, first_ns: int) -> pl.DataFrame:
    taken = {"start_ns": read.devices.column("start_ns")}
    return read.devices.finished(in_order(taken["start_ns"].to_numpy()), first_ns, taken)


def _device_table(devices: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {
        "device": pl.Int32,
        "name": pl.String,
        "memory_bytes": pl.Int64,
        "multiprocessors": pl.Int64,
        "compute_capability": pl.Float64,
    }
    return pl.DataFrame([{name: row[name] for name in schema} for row in devices], schema=schema).unique(
        "device", keep="first", maintain_order=True
    )


def _steps(read: XplaneRows) -> pl.DataFrame:
    """The steps that host threads mark, else those of the device."""
    marked = pl.concat(read.steps) if read.steps else pl.DataFrame(schema=_xplane_host.STEP_COLUMNS)
    if marked.is_empty() and read.device_steps:
        rows = [(number, start, end, None, _xplane_host.STEP_NUM, "") for number, start, end in read.device_steps]
        marked = pl.DataFrame(rows, schema=_xplane_host.STEP_COLUMNS, orient="row").unique("number", keep="first")
    return timed(_xplane_host.chosen_steps(marked), least_ns=0)[0].sort("start_ns")


def _handed(read: XplaneRows, first_ns: int) -> pl.DataFrame:
    rows = pl.concat(read.handed) if read.handed else pl.DataFrame(schema=HANDED)
    return _from(first_ns, handed_work(timed(rows, least_ns=0)[0])).with_columns(pl.col("handed_ns") - first_ns)


def _from(first_ns: int, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("start_ns") - first_ns, pl.col("end_ns") - first_ns)


def _doubts(read: XplaneRows, found: XplaneFiles, *, complete: bool) -> list[Health]:
    health = []
    if not complete:
        health.append(DAMAGED_PLANES(max(read.counts["broken"], 1)))
    if read.counts["unnamed"]:
        health.append(UNNAMED_EVENTS(read.counts["unnamed"]))
    if found.other_hosts:
        names = ", ".join(file.name for file in found.other_hosts[:5])
        health.append(OTHER_HOSTS(len(found.other_hosts), file=found.file.name, others=names))
    if found.other_runs:
        health.append(OTHER_RUNS(found.other_runs, newest=found.file.parent.name))
    return health


def _framework(tables: dict[str, pl.DataFrame], facts: dict[str, Any]) -> str | None:
    if "jax_version" in facts:
        return JAX
    names = tables["host_events"]["name"].unique().cast(pl.String)
    return next((framework for framework, pattern in _FRAMEWORK_RANGES.items() if names.str.contains(pattern).any()), None)


def _first_by_clock(read: XplaneRows) -> int:
    """When the first event began, ns since 1970; times count from the begin of the session where the file tells that."""
    began = read.facts.get("profile_start_time")
    return min(read.first_ns, default=0) + (began if isinstance(began, int) else 0)


def _facts(
    found: XplaneFiles, tables: dict[str, pl.DataFrame], read: XplaneRows, hosts: list[str], size: int, *, complete: bool
) -> TraceFacts:
    host, device = tables["host_events"], tables["device_events"]
    vendors = [row["vendor"] for row in read.device_facts if row["vendor"] in ("nvidia", "amd")]
    by_file = re.sub(r"\.xplane\.pb$", "", found.file.name)
    return TraceFacts(
        format="XPlane",
        files=(str(found.file),),
        bytes=size,
        events=len(host) + len(device),
        recorded=recorded_kinds(tables),
        framework=_framework(tables, read.facts),
        host=hosts[0] if hosts else by_file,
        vendor=vendors[0] if vendors else None,
        complete=complete,
        clock_ns=clock_of(tables, _first_by_clock(read)),
        gradients=compute_gradients(read.programs, read.words),
    )


COVERAGE: Final = {
    "steps": TRACED,
    "host": TRACED,
    "functions": replace(TRACED, shown_with=ShownWith.PYTHON_TRACER),
    "batches": UNSEEN,
    "device": replace(TRACED, shown_with=ShownWith.ACCELERATOR),
    "dispatches": replace(TRACED, shown_with=ShownWith.ACCELERATOR),
    "allocations": UNSEEN,
    "machine": UNSEEN,
}
SOURCE = Source(name="xplane", reads="XPlane files (.xplane.pb)", sniff=sniff, read=read, coverage=COVERAGE, endings=(".pb",))
