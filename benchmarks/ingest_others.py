"""How long reading a large Nsight Systems export and a large XPlane file takes, beside the goals (100 MB in 4 s, 50 MB in 5 s; 0.9 bytes
of memory per byte and 200 MiB).

The files are made from the small real ones of the tests: everything again and again, at later times, with new correlation numbers.
Every reading runs in a process of its own, for its peak of memory. Prints one line per round.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import describe, in_words

from slowstep.sources._xplane.schema import message_class

DATA = Path(__file__).parents[1] / "tests/data"
EXPORT = DATA / "nsys/h100_two_processes/trace.sqlite"
XPLANES = {"keras": DATA / "xplane/keras_fit/trace.xplane.pb", "device": DATA / "xplane/mi300_jax/trace.xplane.pb"}
GOALS_S = {"nsys": 4.0, "keras": 5.0, "device": 5.0}
# Memory that reading may take: per byte of the file, and beside that.
BYTES_PER_BYTE, BESIDE_MIB = 0.9, 200

READ = """
import json, sys, time
from pathlib import Path
from slowstep.sources import {source}
began, began_cpu = time.perf_counter(), time.process_time()
timeline = {source}.read(Path(sys.argv[1]))
# Not getrusage: its peak is at least that of the process that started this one.
peak_kib = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - began_cpu,
    "peak_mib": peak_kib / 1024, "events": timeline.trace.events}}))
"""


def make_export(path: Path, size: int) -> None:
    """A file of at least `size` bytes; one process, so that all of it is kept."""
    shutil.copy(EXPORT, path)
    database = sqlite3.connect(path)
    process = database.execute("SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1 ORDER BY count(*) DESC").fetchone()[0]
    for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"):
        database.execute(f"UPDATE {table} SET globalPid = {process}")
    for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        database.execute(f"UPDATE {table} SET globalTid = {process} + (globalTid & 0xFFFFFF)")
    low, high = database.execute("SELECT min(start), max(end) FROM NVTX_EVENTS").fetchone()
    tables = {name: _columns(database, name) for name in _timed(database)}
    shift, correlations = high - low + 10**8, 10**7
    rounds = 1
    while path.stat().st_size < size:
        for table, columns in tables.items():
            values = ", ".join(_later(column, shift * rounds, correlations * rounds) for column in columns)
            database.execute(f"INSERT INTO {table} SELECT {values} FROM {table}")
        database.commit()
        rounds *= 2
    database.close()


def _timed(database: sqlite3.Connection) -> list[str]:
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [name for name in names if {"start", "end"} <= set(_columns(database, name))]


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def _later(column: str, shift: int, correlations: int) -> str:
    if column in ("start", "end"):
        return f'"{column}" + {shift}'
    return f'"{column}" + {correlations}' if column == "correlationId" else f'"{column}"'


def make_xplane(source: Path, path: Path, size: int) -> None:
    """A file of at least `size` bytes."""
    space = message_class("XSpace").FromString(source.read_bytes())
    lines = [line for plane in space.planes for line in plane.lines if line.events]
    first = min(event.offset_ps for line in lines for event in line.events)
    shift = max(event.offset_ps + event.duration_ps for line in lines for event in line.events) - first
    times = size // max(sum(line.ByteSize() for line in lines), 1) + 1
    for plane in space.planes:
        correlation = next((entry.key for entry in plane.stat_metadata if entry.value.name == b"correlation_id"), None)
        for line in plane.lines:
            original = list(line.events)
            for again in range(1, times):
                for event in original:
                    copy = line.events.add()
                    copy.CopyFrom(event)
                    copy.offset_ps += shift * again
                    for stat in copy.stats:
                        if stat.metadata_id == correlation:
                            stat.ClearField("int64_value")
                            stat.uint64_value = max(stat.uint64_value, 1) + 100_000 * again
    path.write_bytes(space.SerializeToString())


def measured(source: str, path: Path) -> dict[str, float]:
    """One reading in a new process."""
    done = subprocess.run([sys.executable, "-c", READ.format(source=source), str(path)], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=tuple(GOALS_S))
    options = parser.parse_args()
    print(in_words(describe()))
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, Path] = {}
        for name in [options.only] if options.only else GOALS_S:
            files[name] = Path(folder) / f"{name}.{'sqlite' if name == 'nsys' else 'xplane.pb'}"
            if name == "nsys":
                make_export(files[name], 100_000_000)
            else:
                make_xplane(XPLANES[name], files[name], 50_000_000)
        for _ in range(options.rounds):
            for name, path in files.items():
                got = measured("nsys" if name == "nsys" else "xplane", path)
                size_mb = path.stat().st_size / 1e6
                most_mib = BYTES_PER_BYTE * path.stat().st_size / 2**20 + BESIDE_MIB
                goal_s = GOALS_S[name] * size_mb / (100 if name == "nsys" else 50)
                print(
                    f"{name:7} {size_mb:6.1f} MB {got['events']:9,} events  wall {got['wall_s']:5.2f} s  cpu {got['cpu_s']:5.2f} s  "
                    f"peak {got['peak_mib']:6.0f} MiB  goal {goal_s:4.1f} s, {most_mib:.0f} MiB"
                )


if __name__ == "__main__":
    main()
