from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_machine import FakeMachine
from slowstep.record.device import nvml
from slowstep.record.monitors import Absent, MonitoredCommand, Reading, gpu
from slowstep.record.writing import format as contract

SOURCE = Path(__file__).parents[3] / "data" / "fake_nvml.c"
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A library made by a C compiler: what the structures look like is its word, not that of the code under test."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    path = tmp_path_factory.mktemp("driver") / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True, timeout=60)
    return ctypes.CDLL(str(path))


@pytest.fixture
def place(tmp_path: Path) -> MonitoredCommand:
    machine = FakeMachine(tmp_path)
    machine.process(10)
    return machine.place(10)


def of(kind: int, readings: list[Reading], device: int = 0) -> list[tuple[int, ...]]:
    return [reading[1:4] for reading in readings if reading[0] == kind and reading[4] == device]


def test_the_structures_are_those_of_the_public_header() -> None:
    assert ctypes.sizeof(nvml.NvmlMemory) == 24
    assert ctypes.sizeof(nvml.Utilization) == 8
    assert ctypes.sizeof(nvml.ProcessInfo) == 24
    assert nvml.ProcessInfo.used_bytes.offset == 8


def test_all_that_a_device_tells_is_read(driver: Any, place: MonitoredCommand) -> None:
    ctypes.c_uint.in_dll(driver, "own_pid").value = 10
    reader = gpu.open_gpu(place, lambda name: driver)

    first, second = reader.read(1), reader.read(2)
    reader.close()

    assert of(contract.READING_GPU_USE, first) == [(90, 40, 20 * GIB)]
    assert of(contract.READING_GPU_CLOCK, first) == [(1001, 1002, 8)]
    assert of(contract.READING_GPU_LIMIT, first) == [(0x24, 300_000, 60)]
    assert of(contract.READING_GPU_LINK, first) == [(4, 8, 0)]
    assert of(contract.READING_GPU_TENANTS, first) == [(1, 1, 2 * MIB)]
    assert of(contract.READING_GPU_COPIED, first) == [(9000, -1, 0)]
    assert of(contract.READING_GPU_COPIED, second) == [(-1, 7000, 0)]


def test_what_a_device_does_not_tell_is_unknown_and_not_zero(driver: Any, place: MonitoredCommand) -> None:
    reader = gpu.open_gpu(place, lambda name: driver)

    readings = reader.read(1)
    reader.close()

    assert of(contract.READING_GPU_USE, readings, 1) == [(91, 40, -1)]
    assert of(contract.READING_GPU_CLOCK, readings, 1) == [(-1, -1, -1)]
    assert of(contract.READING_GPU_LIMIT, readings, 1) == [(-1, -1, -1)]
    assert of(contract.READING_GPU_TENANTS, readings, 1) == []
    assert reader.facts[1]["memory_bytes"] is None


def test_what_never_changes_is_noted_once(driver: Any, place: MonitoredCommand) -> None:
    reader = gpu.open_gpu(place, lambda name: driver)
    reader.close()

    assert reader.facts[0] == {
        "kind": "gpu", "id": 0, "name": "Fake H1", "uuid": "GPU-1", "memory_bytes": 80 * GIB, "most_sm_mhz": 2001, "most_memory_mhz": 2002,
        "power_limit_mw": 400_000, "default_power_limit_mw": 700_000, "link_generation": 5, "link_lanes": 16,
    }  # fmt: skip


def test_more_processes_than_there_was_room_for_are_asked_for_again(driver: Any, place: MonitoredCommand) -> None:
    tenants = ctypes.c_uint.in_dll(driver, "tenants")
    tenants.value = 100
    reader = gpu.open_gpu(place, lambda name: driver)

    readings = reader.read(1)
    reader.close()
    tenants.value = 2

    assert of(contract.READING_GPU_TENANTS, readings)[0][1] >= 99


def test_a_machine_without_a_driver_is_nothing_special(place: MonitoredCommand) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    class Broken:
        def nvmlInit_v2(self) -> int:
            return 9

    for load in (missing, lambda name: object(), lambda name: Broken()):
        with pytest.raises(Absent) as absent:
            gpu.open_gpu(place, load)
        assert absent.value.usual


@pytest.mark.gpu
def test_the_driver_of_this_machine_answers() -> None:
    try:
        reader = gpu.open_gpu(MonitoredCommand(os.getpid()))
    except Absent as reason:
        pytest.skip(f"no accelerator here: {reason}")
    readings = reader.read(time.monotonic_ns())
    reader.close()

    (busy, _, used) = of(contract.READING_GPU_USE, readings)[0]
    assert 0 <= busy <= 100
    assert used > 0
