from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from made_machine import GIB, MIB, MadeMachine, make_machine_recording
from made_recordings import TRAINER_PID, Training, make_recording
from slowstep.analyses.machine.machine import Machine, Throttling
from slowstep.analyses.machine.window import Window, rate
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.steps.suspensions import Suspensions
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import read
from slowstep.timeline.schema import TABLE

NEW = ("run_delays", "tree_io", "tree_memory", "tree_faults", "machine_times", "pressures", "throttles", "quotas", "affinities")
ALSO_NEW = ("group_memory", "machine_memory", "swap", "disks", "network", "devices", "device_readings")


def measured(folder: Path, machine: MadeMachine, **training: object) -> Machine:
    return measure_recording(read(make_machine_recording(folder, Training(**training), machine))).machine.resources  # type: ignore[arg-type]


def test_a_recording_older_than_the_readings_has_empty_tables_and_nothing_measured(tmp_path: Path) -> None:
    timeline = read(make_recording(tmp_path, Training()))

    assert all(timeline.table(name).equals(TABLE[name].empty()) for name in (*NEW, *ALSO_NEW))
    machine = measure_recording(timeline).machine.resources
    assert (machine.idle_cores, machine.queueing, machine.throttling) == (None, None, None)
    assert (machine.memory.resident_bytes, machine.memory.growth, machine.memory.limit) == (None, None, None)
    assert (machine.pressure, machine.devices) == ({}, ())


def test_rates_are_those_of_the_window(tmp_path: Path) -> None:
    machine = measured(
        tmp_path,
        MadeMachine(idle_cores=2.5, queueing=0.5, pressure=0.3, throttled=0.2, quota=3, affinity=(4, 2)),
    )

    assert machine.idle_cores == pytest.approx(2.5)
    assert machine.queueing == pytest.approx(0.5)
    assert machine.pressure == {"cpu": pytest.approx(0.3)}
    assert machine.throttling == Throttling(share=pytest.approx(0.2, abs=0.02), cores=pytest.approx(1.0))
    assert (machine.quota_cores, machine.cores_at_start, machine.cores_now) == (3.0, 4, 2)


def test_readings_that_cover_little_of_the_window_say_nothing() -> None:
    readings = pl.DataFrame({"time_ns": [0, 10, 20], "n": [0, 5, 10]})

    assert rate(readings, "n", Window(low_ns=0, high_ns=20)) == pytest.approx(0.5)
    assert rate(readings, "n", Window(low_ns=5, high_ns=30)) == pytest.approx(0.5)
    assert rate(readings, "n", Window(low_ns=15, high_ns=60)) is None
    assert rate(readings, "n", Window(low_ns=100, high_ns=200)) is None
    assert rate(readings[:1], "n", Window(low_ns=0, high_ns=20)) is None


def test_what_happens_while_the_training_stands_still_is_left_out() -> None:
    table = pl.DataFrame({"time_ns": [0, 10, 20, 30, 40], "n": [0, 10, 10, 1010, 1020]})
    suspensions = Suspensions(start_ns=np.array([10]), end_ns=np.array([30]))
    window = Window(low_ns=0, high_ns=40, suspensions=suspensions)

    assert rate(table, "n", window) == pytest.approx(1.0)
    assert window.readings(table)["time_ns"].to_list() == [0, 40]


def test_the_limit_that_is_nearest_counts_and_file_pages_that_can_be_dropped_do_not(tmp_path: Path) -> None:
    group = MadeMachine(
        group_bytes=lambda share: 9 * GIB + share * GIB / 2,
        limit_bytes=10 * GIB,
        droppable_bytes=2 * GIB,
        available=lambda share: 5 * GIB,
        total_bytes=64 * GIB,
    )

    limit = measured(tmp_path, group).memory.limit

    assert limit is not None
    assert (limit.of, limit.limit_bytes) == ("the control group", 10 * GIB)
    assert limit.left_bytes == pytest.approx(2.5 * GIB, rel=0.05)


def test_a_group_without_a_limit_leaves_the_machines(tmp_path: Path) -> None:
    limit = measured(tmp_path, MadeMachine(group_bytes=lambda share: GIB, available=lambda share: 6 * GIB)).memory.limit

    assert limit is not None
    assert limit.of == "the machine"
    assert limit.left_bytes == pytest.approx(6 * GIB, rel=0.01)


def test_growth_is_seen_by_quarters(tmp_path: Path) -> None:
    growth = measured(tmp_path, MadeMachine(resident=lambda share: GIB + share * 400 * MIB)).memory.growth

    assert growth is not None
    assert growth.low_per_s == pytest.approx(growth.high_per_s, rel=0.2)
    assert growth.last_bytes - growth.first_bytes == pytest.approx(0.75 * 0.8 * 400 * MIB, rel=0.1)
    assert growth.in_trainer is True


@pytest.mark.parametrize(("every_ms", "pid", "is_seen"), [(600.0, TRAINER_PID, True), (600.0, 7, False), (100.0, TRAINER_PID, False)])
def test_of_a_short_window_the_growth_of_the_training_process_alone_is_seen(
    tmp_path: Path, every_ms: float, pid: int, is_seen: bool
) -> None:
    machine = MadeMachine(resident=lambda share: GIB + share * 400 * MIB, every_ms=every_ms, largest_pid=pid)

    memory = measured(tmp_path, machine).memory

    assert (memory.early is not None) is is_seen
    assert (memory.growth is None) is (every_ms > 100)
    if memory.early is not None:
        # Half of the tree's, as it was made.
        assert memory.early.low_per_s == pytest.approx(memory.early.per_s, rel=0.1)
        assert memory.early.last_bytes - memory.early.first_bytes == pytest.approx(0.75 * 0.8 * 200 * MIB, rel=0.2)


def test_an_unknown_number_of_a_device_is_null(tmp_path: Path) -> None:
    machine = MadeMachine(device={"sm_mhz": -1, "state": -1, "tenants": (1, 0, -1)}, cuda=True)

    (device,) = measured(tmp_path, machine).devices

    assert (device.sm_mhz, device.state, device.others_bytes) == (None, None, None)
    assert (device.busy_share, device.link, device.most_link) == (pytest.approx(0.95), (5, 16), (5, 16))


def test_damaged_notes_about_devices_and_disks_are_left_out(tmp_path: Path) -> None:
    folder = make_machine_recording(tmp_path, Training(), MadeMachine(disk=(1.0, 0.1), device={}))
    notes = folder / "launcher.jsonl"
    damaged = ('{"kind": "gpu", "id": "x"}', '{"kind": "gpu", "id": 1, "memory_bytes": "much"}', '{"kind": "disk", "id": 1}')
    notes.write_text(notes.read_text() + "".join(line + "\n" for line in damaged))
    with (folder / "launcher.rec").open("ab") as file:
        file.write(fmt.RECORD.pack(2_000_000_000, 2_000_000_000, 1, 1, 1, 77, 0, 0, fmt.READING_PRESSURE))

    timeline = read(folder)

    assert timeline.table("devices")["device"].to_list() == [0]
    assert timeline.table("disks")["disk"].unique().to_list() == ["sda"]
    assert timeline.table("pressures").height == 0
    assert [(row.name, row.count) for row in timeline.health] == [("malformed-notes", 3)]


def _cache(share: float) -> float:
    """Fills up in the first half of the run."""
    return GIB + min(share, 0.5) * GIB


def _sawtooth(share: float) -> float:
    """Workers that end with every epoch: 200 steps in epochs of 25."""
    return GIB + (share * 8 % 1) * 300 * MIB


@pytest.mark.parametrize(
    ("machine", "steadily"),
    [
        (MadeMachine(resident=_cache), False),
        (MadeMachine(resident=_sawtooth), False),
        (MadeMachine(resident=lambda share: _sawtooth(share) + share * GIB), True),
        (MadeMachine(resident=lambda share: GIB, mapped=lambda share: share * 4 * GIB), False),
    ],
    ids=["a cache that fills up", "workers that end with every epoch", "growth beside them", "files that are mapped"],
)
def test_only_steady_growth_shows_in_the_slowest_quarter(tmp_path: Path, machine: MadeMachine, steadily: bool) -> None:
    growth = measured(tmp_path, machine).memory.growth

    assert growth is not None
    assert (growth.low_per_s > growth.per_s / 3 > 0) is steadily


def test_a_device_is_known_by_the_readings_in_which_it_worked(tmp_path: Path) -> None:
    alternating = {"busy": lambda share: 90 if share * 100 % 2 < 1 else 0, "lowered_by": 0x41, "tenants": (1, 2, 3 * GIB)}

    (device,) = measured(tmp_path, MadeMachine(device=alternating, cuda=True)).devices

    assert 0 < device.working < device.readings
    # That it rests (0x01) takes no speed from it.
    assert device.lowered == {"heat (hardware)": 1.0}
    assert (device.shared, device.others_bytes) == (1.0, 3 * GIB)


def test_processes_of_a_container_that_cannot_be_told_apart_share_nothing(tmp_path: Path) -> None:
    (device,) = measured(tmp_path, MadeMachine(device={"tenants": (0, 1, GIB)}, cuda=True)).devices

    assert device.shared is None


def test_training_processes_are_counted(tmp_path: Path) -> None:
    folder = make_machine_recording(tmp_path, Training(), MadeMachine())
    # Another rank: the same files under another number.
    for name in ("100-1.rec", "100-1.jsonl"):
        text = (folder / name).read_bytes().replace(b'"pid": 100', b'"pid": 101')
        (folder / name.replace("100", "101")).write_bytes(text)

    assert measure_recording(read(folder)).machine.resources.ranks == 2
