"""Reads XPlane files (`.xplane.pb`) of TensorFlow's and JAX's profilers, alone or in a TensorBoard log folder."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from slowstep.errors import UnreadableInput
from slowstep.health import Health
from slowstep.sources._filled import clock_doubts, filled, timed
from slowstep.sources._nested import nested
from slowstep.sources._source import PLAIN, Reading, Source
from slowstep.sources._xplane import device as _xplane_device
from slowstep.sources._xplane import host as _xplane_host
from slowstep.sources._xplane.files import Found, find, is_xplane
from slowstep.sources._xplane.plane import Plane
from slowstep.sources._xplane.wire import hostnames, is_whole, planes
from slowstep.timeline.timeline import RunFacts, Timeline
from slowstep.timeline.trace import TraceFacts

JAX, TENSORFLOW = "jax", "tensorflow"
# Lines without a thread id of the operating system have a number that was drawn at random.
LARGEST_THREAD_ID: Final = 2**32
# Ranges that only one of the frameworks writes.
_FRAMEWORK_RANGES: Final = {JAX: r"^PjitFunction\(", TENSORFLOW: r"^(?:Profiled batch|EagerExecute|ExecutorState::Process)$"}


@dataclass(kw_only=True, slots=True)
class _Read:
    """What was read so far, plane by plane."""

    host: list[pl.DataFrame] = field(default_factory=list)
    steps: list[pl.DataFrame] = field(default_factory=list)
    threads: list[dict[str, Any]] = field(default_factory=list)
    device: list[pl.DataFrame] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)
    device_steps: list[tuple[int, int, int]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    planes: int = 0
    broken_planes: int = 0
    unnamed: int = 0


def sniff(head: bytes, path: Path) -> bool:
    """An XPlane file, by its name or its first bytes; or a folder that holds one as TensorBoard keeps them."""
    return is_xplane(head, path)


def read(path: Path, how: Reading = PLAIN) -> Timeline:
    """Read an XPlane file, or the newest run of a log folder (of several hosts the first), into a Timeline.

    One thread or stream is in memory at a time, about six bytes per byte of it, and all tables: `how.memory_bytes` below that is not
    obeyed. Raises UnreadableInput
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
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return _timeline(found, data, how)
    except OSError as error:
        raise UnreadableInput(f"{found.file} cannot be read: {error.strerror or error}.") from error


def _timeline(found: Found, data: memoryview, how: Reading) -> Timeline:
    read = _Read()
    for raw in planes(data):
        read.planes += 1
        _take(read, Plane(raw))
        read.broken_planes += not raw.whole
        how.progress(raw.end / len(data))
    if not read.planes:
        raise UnreadableInput(f"{found.file} is no XPlane file, or damaged from its begin: no plane can be read in it. Profile again.")
    if not read.host and not read.device:
        raise UnreadableInput(f"{found.file} holds {read.planes} planes, but no event of a host thread or a device. Profile again.")
    complete = not read.broken_planes and is_whole(data)
    tables, health = _tables(read)
    health += _doubts(read, found, complete=complete)
    facts = _facts(found, tables, read, hostnames(data), len(data), complete=complete)
    name = found.file.name
    run = RunFacts(name=name, command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    return Timeline(source="xplane", tables=tables, processes=(), run=run, health=tuple(health), trace=facts)


def _take(read: _Read, plane: Plane) -> None:
    """Take over what a plane says. Planes that are neither of a host's threads nor of a device give facts only."""
    read.facts |= {name: value for name, value in plane.facts.items() if name in ("jax_version", "process_id")}
    device = _xplane_device.device_number(plane)
    if device is not None:
        frames = _xplane_device.device_lines(plane, device)
        if frames:
            read.device += frames
            read.devices.append(_xplane_device.device_facts(plane, device))
        read.device_steps += _xplane_device.steps_of_device(plane)
    elif _xplane_host.is_host(plane):
        for line in plane.lines():
            thread = len(read.threads)
            events, steps = _xplane_host.host_line(line, thread)
            read.unnamed += line.unnamed()
            read.host.append(events)
            read.steps.append(steps)
            read.threads.append({"thread": thread, "tid": line.id if 0 < line.id < LARGEST_THREAD_ID else None, "name": line.name or None})


def _tables(read: _Read) -> tuple[dict[str, pl.DataFrame], list[Health]]:
    host = pl.concat(read.host) if read.host else pl.DataFrame(schema=_xplane_host.COLUMNS)
    device_schema = _xplane_device.COLUMNS | {"doubtful": pl.Int32}
    device = pl.concat(read.device) if read.device else pl.DataFrame(schema=device_schema)
    host, bad_host = timed(host, least_ns=0)
    device, bad_device = timed(device, least_ns=0)
    host, health = nested(host, tuple(pl.col("kind") == kind for kind in ("overhead", "annotation", "python", "operator")))
    health += clock_doubts(host, device)
    health += _xplane_device.garbage(sum(int(frame["doubtful"][0]) for frame in read.device))
    if bad_host + bad_device:
        remedy = "their times are missing or end before they begin; they are left out: record again if there are many"
        health.append(Health(name="events-without-times", severity="data_loss", count=bad_host + bad_device, remedy=remedy))
    first_ns = min((int(frame["start_ns"].min()) for frame in (host, device) if len(frame)), default=0)  # type: ignore[arg-type]
    threads = pl.DataFrame(read.threads, schema={"thread": pl.Int32, "tid": pl.Int64, "name": pl.String})
    process = read.facts.get("process_id")
    tables = {
        "trace_threads": filled("trace_threads", threads.with_columns(pl.lit(process if isinstance(process, int) else None).alias("pid"))),
        "trace_devices": filled("trace_devices", _device_table(read.devices)),
        "host_events": filled("host_events", _from(first_ns, host).sort("start_ns", maintain_order=True)),
        "device_events": filled("device_events", _from(first_ns, device).sort("start_ns", maintain_order=True)),
        "marked_steps": filled("marked_steps", _from(first_ns, _steps(read))),
    }
    return tables, health


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


def _steps(read: _Read) -> pl.DataFrame:
    """The steps that host threads mark, else those of the device."""
    marked = pl.concat(read.steps) if read.steps else pl.DataFrame(schema=_xplane_host.STEP_COLUMNS)
    if marked.is_empty() and read.device_steps:
        rows = [(number, start, end, None, _xplane_host.STEP_NUM, "") for number, start, end in read.device_steps]
        marked = pl.DataFrame(rows, schema=_xplane_host.STEP_COLUMNS, orient="row").unique("number", keep="first")
    return timed(_xplane_host.chosen_steps(marked), least_ns=0)[0].sort("start_ns")


def _from(first_ns: int, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("start_ns") - first_ns, pl.col("end_ns") - first_ns)


def _doubts(read: _Read, found: Found, *, complete: bool) -> list[Health]:
    health = []
    if not complete:
        remedy = "the file is damaged or was cut off; what comes before is used: copy it again, or profile again"
        health.append(Health(name="damaged-planes", severity="data_loss", count=max(read.broken_planes, 1), remedy=remedy))
    if read.unnamed:
        remedy = "the names of these events are missing from the file, so that steps, operators and calls among them are not recognised"
        health.append(Health(name="unnamed-events", severity="data_loss", count=read.unnamed, remedy=remedy))
    if found.other_hosts:
        names = ", ".join(file.name for file in found.other_hosts[:5])
        remedy = f"only {found.file.name} is looked at; the run has more hosts: {names}"
        health.append(Health(name="other-hosts", severity="notice", count=len(found.other_hosts), remedy=remedy))
    if found.other_runs:
        remedy = f"only the newest run, {found.file.parent.name}, is looked at; name another one's folder to analyze it"
        health.append(Health(name="other-runs", severity="info", count=found.other_runs, remedy=remedy))
    return health


def _framework(tables: dict[str, pl.DataFrame], facts: dict[str, Any]) -> str | None:
    if "jax_version" in facts:
        return JAX
    names = tables["host_events"]["name"].unique().cast(pl.String)
    return next((framework for framework, pattern in _FRAMEWORK_RANGES.items() if names.str.contains(pattern).any()), None)


def _facts(found: Found, tables: dict[str, pl.DataFrame], read: _Read, hosts: list[str], size: int, *, complete: bool) -> TraceFacts:
    host, device = tables["host_events"], tables["device_events"]
    kinds = set(host["kind"].unique().to_list())
    recorded = {
        "operators": "operator" in kinds,
        "runtime": bool(kinds & {"runtime", "driver"}),
        "device": len(device) > 0,
        "python": "python" in kinds,
        "annotations": "annotation" in kinds,
    }
    vendors = [row["vendor"] for row in read.devices if row["vendor"] in ("nvidia", "amd")]
    by_file = re.sub(r"\.xplane\.pb$", "", found.file.name)
    return TraceFacts(
        format="XPlane",
        files=(str(found.file),),
        bytes=size,
        events=len(host) + len(device),
        recorded=frozenset(name for name, there in recorded.items() if there),
        framework=_framework(tables, read.facts),
        host=hosts[0] if hosts else by_file,
        vendor=vendors[0] if vendors else None,
        complete=complete,
    )


SOURCE = Source(name="xplane", sniff=sniff, read=read)
