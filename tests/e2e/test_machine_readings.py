"""A real command with everything read beside it: the readings are those of that command, on this machine."""

from __future__ import annotations

import os

import numpy as np
import polars as pl
import pytest

from launching import TRAINING, Workplace
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import read
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.diagnose_recordings import diagnose_recording

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")]

MIB = 1 << 20
# Trains on until the launcher has read memory twice after the work: how often it does so depends on how busy the machine is.
SCRIPT = (
    TRAINING
    + """
from slowstep.record.writing import format as contract

def memory_readings():
    with open(os.path.join(os.environ["SLOWSTEP_RECORDING"], "launcher.rec"), "rb") as file:
        return file.read()[47::48].count(contract.READING_RSS)

train(50)
with open("big", "wb") as file:
    file.write(bytes(32 << 20))
for _ in range(4):
    with open("big", "rb") as file:
        file.read()
os.unlink("big")
held = bytearray(b"x") * (200 << 20)
os.system(f"{sys.executable} -c 'import time\\nwhile time.process_time() < 0.3: pass'")
enough, limit = memory_readings() + 2, time.monotonic() + 60
while memory_readings() < enough and time.monotonic() < limit:
    train(20)
print("held", len(held))
"""
)


def falls(timeline: Timeline, table: str, column: str) -> bool:
    values = timeline.table(table).sort("time_ns")[column].to_numpy()
    return bool((np.diff(values) < 0).any())


def test_the_readings_of_a_run_are_plausible(work: Workplace) -> None:
    work.write("train.py", SCRIPT)

    ended = work.run("train.py")

    assert ended.code == 0, ended.err
    folder = work.recording()
    timeline = read(folder)
    machine = measure_recording(timeline).machine.resources
    cores = os.cpu_count() or 1
    io, memory, times = timeline.table("tree_io"), timeline.table("tree_memory"), timeline.table("machine_times")
    if io.height:
        assert io["called_bytes"].max() >= 4 * 32 * MIB  # type: ignore[operator]
    assert 200 * MIB <= memory["own_bytes"].max() <= memory["resident_bytes"].max() <= 8 << 30  # type: ignore[operator]
    assert timeline.table("tree_faults")["minor"].max() > 1000  # type: ignore[operator]
    assert timeline.table("readings")["tree_cpu_ns"].max() >= 300_000_000  # type: ignore[operator]
    assert 0 <= (machine.idle_cores or 0) <= cores + 0.5
    assert times.height >= 3
    for table, column in (("tree_io", "called_bytes"), ("tree_faults", "minor"), ("readings", "tree_cpu_ns"), ("run_delays", "delay_ns")):
        assert not falls(timeline, table, column), table
    total = timeline.table("machine_memory")["total_bytes"]
    assert total.n_unique() == 1
    allowed = timeline.table("affinities").filter(pl.col("pid") == timeline.processes[0].pid)["cores"].to_list()
    assert allowed == [len(os.sched_getaffinity(0))]
    # What this machine lacks is a line in the recording, and no doubt in the report.
    assert [row for row in timeline.health if row.name.startswith("monitor:")] == []
    assert diagnose_recording(folder)["run"]["steps"] > 50
