"""A large export is analyzed in the memory that was asked for: 0.9 byte per byte of it, and 200 MiB."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from slowstep.cli.freed_memory import POLARS

EXPORT = Path(__file__).parents[2] / "data/nsys/h100_two_processes/trace.sqlite"
SIZE = 60_000_000
ANALYZE = """
import sys
from slowstep.cli.main import main
sys.argv = ["slowstep", "analyze", *sys.argv[1:]]
try:
    main()
finally:
    # Not getrusage: its peak is at least that of the process that started this one.
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""


def repeated(path: Path) -> Path:
    """The small export again and again, at later times and with other correlation numbers."""
    shutil.copy(EXPORT, path)
    database = sqlite3.connect(path)
    process = database.execute("SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1 ORDER BY count(*) DESC").fetchone()[0]
    database.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = {process}")
    for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        database.execute(f"UPDATE {table} SET globalTid = {process} + (globalTid & 0xFFFFFF)")
    low, high = database.execute("SELECT min(start), max(end) FROM NVTX_EVENTS").fetchone()
    times = 1
    while path.stat().st_size < SIZE:
        later = {"start": (high - low + 10**8) * times, "end": (high - low + 10**8) * times, "correlationId": 10**7 * times}
        for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"):
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(f'"{name}" + {later[name]}' if name in later else f'"{name}"' for name in names)
            database.execute(f"INSERT INTO {table} SELECT {values} FROM {table}")
        database.commit()
        times *= 2
    database.close()
    return path


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_large_export_is_analyzed_in_little_memory(tmp_path: Path) -> None:
    path = repeated(tmp_path / "large.sqlite")
    # What polars tells its allocator in this process is not what it is told in a new one.
    environment = {name: value for name, value in os.environ.items() if name != POLARS}
    reports = []
    for asked in ([], ["--memory", "50M"]):
        report = tmp_path / "report.json"
        done = subprocess.run(
            [sys.executable, "-c", ANALYZE, str(path), "--json", str(report), *asked],
            env=environment | {"XDG_CACHE_HOME": str(tmp_path / f"cache{len(asked)}")},
            capture_output=True,
            text=True,
            check=True,
        )
        peak_bytes = int(done.stderr.split()[-1]) * 1024
        assert peak_bytes <= 0.9 * path.stat().st_size + (200 << 20)
        reports.append(json.loads(report.read_text())["ledger"])
    assert reports[0] == reports[1]
