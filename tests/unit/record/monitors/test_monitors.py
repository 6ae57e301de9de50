from __future__ import annotations

import os
from pathlib import Path

import pytest

from fake_machine import MS, FakeMachine
from slowstep.record.monitors import (
    Absent,
    Reading,
    affinity,
    cpu,
    disk,
    group_memory,
    machine_memory,
    network,
    pressure,
    run_delay,
    throttling,
    tree_io,
    tree_memory,
)
from slowstep.record.system import cgroups
from slowstep.record.system.family import PAGE_BYTES
from slowstep.record.writing import format as contract

SECOND = 1_000_000_000
TICK = 10 * MS


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def of(kind: int, readings: list[Reading]) -> list[Reading]:
    return [reading for reading in readings if reading[0] == kind]


# The process tree.


def test_what_a_tree_used_is_the_sum_over_its_processes(machine: FakeMachine) -> None:
    machine.process(10, ticks=100, minor=5, major=1, pages=50)
    machine.process(11, parent=10, ticks=7, minor=2, major=3, pages=80, file=20)
    place = machine.place(10)

    assert of(contract.READING_CPU, cpu.open_cpu(place).read(SECOND)) == [(contract.READING_CPU, 107 * TICK, 137 * TICK, 9 * TICK, 0)]
    assert of(contract.READING_TIMES, cpu.open_cpu(place).read(SECOND)) == [(contract.READING_TIMES, 5000 * TICK, 70 * TICK, 0, 0)]
    memory = tree_memory.open_tree_memory(place).read(SECOND)
    assert of(contract.READING_FAULTS, memory) == [(contract.READING_FAULTS, 7, 4, 0, 0)]
    assert of(contract.READING_RSS, memory) == [(contract.READING_RSS, 130 * PAGE_BYTES, 110 * PAGE_BYTES, 60 * PAGE_BYTES, 11)]


def test_a_process_that_ends_between_readings_takes_nothing_back(machine: FakeMachine) -> None:
    machine.process(10, ticks=100, called=1000)
    machine.process(11, parent=10, ticks=40, called=500)
    place = machine.place(10)
    time, io = cpu.open_cpu(place), tree_io.open_tree_io(place)
    before = time.read(SECOND)[0][1], io.read(SECOND)[0][1]

    machine.end(11)
    between = time.read(2 * SECOND)[0][1], io.read(2 * SECOND)[0][1]
    # Its parent has waited for it, and has its counters now.
    machine.process(10, ticks=101, waited=41, called=1600)
    after = time.read(3 * SECOND)[0][1], io.read(3 * SECOND)[0][1]

    assert before == (140 * TICK, 1500)
    assert between == before
    assert after == (142 * TICK, 1600)


def test_what_an_orphan_used_is_kept(machine: FakeMachine) -> None:
    machine.process(10, ticks=1)
    machine.process(11, parent=10, ticks=2)
    machine.process(12, parent=11, ticks=30)
    place = machine.place(10)
    reader = cpu.open_cpu(place)
    reader.read(SECOND)
    machine.end(11)
    reader.read(2 * SECOND)

    machine.end(12)
    machine.process(10, ticks=1, waited=2)

    # Nobody waits for it: the parent that would have is gone.
    assert reader.read(3 * SECOND)[0][1] == 33 * TICK


def test_a_family_that_ends_at_once_is_not_counted_twice(machine: FakeMachine) -> None:
    machine.process(10, ticks=1)
    machine.process(11, parent=10, ticks=2)
    machine.process(12, parent=11, ticks=30)
    reader = cpu.open_cpu(machine.place(10))
    reader.read(SECOND)

    machine.end(12)
    machine.end(11)
    machine.process(10, ticks=1, waited=32)

    assert reader.read(2 * SECOND)[0][1] == 33 * TICK


def test_a_tree_of_which_all_have_ended_has_no_memory_and_keeps_its_counts(machine: FakeMachine) -> None:
    machine.process(10, ticks=5, minor=3)
    place = machine.place(10)
    time, memory = cpu.open_cpu(place), tree_memory.open_tree_memory(place)
    machine.end(10)

    assert time.read(SECOND)[0][1] == 5 * TICK
    assert memory.read(SECOND) == [(contract.READING_FAULTS, 3, 0, 0, 0)]


def test_a_tree_that_does_not_show_its_memory_is_absent(machine: FakeMachine) -> None:
    machine.process(10)
    (machine.proc / "10" / "statm").unlink()

    with pytest.raises(Absent):
        tree_memory.open_tree_memory(machine.place(10))


def test_a_process_whose_io_may_not_be_seen_is_left_out(machine: FakeMachine) -> None:
    machine.process(10, called=100, read=10, written=1)
    machine.process(11, parent=10, called=7)
    (machine.proc / "11" / "io").unlink()
    reader = tree_io.open_tree_io(machine.place(10))

    assert reader.read(SECOND) == [(contract.READING_IO, 100, 10, 1, 0)]
    reader.close()


def test_a_command_whose_io_may_not_be_seen_is_absent(machine: FakeMachine) -> None:
    machine.process(10)
    (machine.proc / "10" / "io").unlink()

    with pytest.raises(Absent, match="io cannot be read"):
        tree_io.open_tree_io(machine.place(10))


def test_delays_of_all_threads_are_added_and_those_of_ended_ones_kept(machine: FakeMachine) -> None:
    machine.process(10, delay=100, threads=2)
    second = machine.write("proc/10/task/15/schedstat", "1 30 1\n")
    reader = run_delay.open_run_delay(machine.place(10))

    assert reader.read(SECOND) == [(contract.READING_DELAY, 130, 2, 2, 0)]
    second.write_text("")
    second.unlink()
    machine.process(10, delay=110)

    assert reader.read(2 * SECOND) == [(contract.READING_DELAY, 140, 1, 1, 0)]
    reader.close()


def test_without_schedstat_the_delay_is_absent(machine: FakeMachine) -> None:
    machine.process(10)
    (machine.proc / "10" / "schedstat").unlink()

    with pytest.raises(Absent, match="schedstat"):
        run_delay.open_run_delay(machine.place(10))


def test_affinity_is_said_when_it_changes(machine: FakeMachine) -> None:
    machine.process(10)
    (machine.proc / "10/task/15").mkdir()
    cores = {10: {0, 1, 2, 3}, 15: {0, 1, 2, 3}}
    reader = affinity.AffinityReader(machine.place(10), cores.__getitem__)

    assert reader.read(SECOND) == [(contract.READING_AFFINITY, 4, 4, 0b1111, 10)]
    assert reader.read(2 * SECOND) == []
    cores[10] = {0}
    # The other thread was made before: that it may use more says nothing of where the main thread computes.
    assert reader.read(3 * SECOND) == [(contract.READING_AFFINITY, 1, 1, 0b1, 10)]
    # A library that gives each thread a core of its own.
    cores[15] = {1}
    assert reader.read(4 * SECOND) == [(contract.READING_AFFINITY, 2, 1, 0b11, 10)]


def test_of_a_machine_with_more_cores_than_fit_it_is_not_said_which_a_process_may_use(machine: FakeMachine) -> None:
    machine.process(10)
    reader = affinity.AffinityReader(machine.place(10), {10: {0, 200}}.__getitem__)

    assert reader.read(SECOND) == [(contract.READING_AFFINITY, 2, 2, 0, 10)]


# The machine.


def test_pressure_is_read_where_the_kernel_measures_it(machine: FakeMachine) -> None:
    machine.write("proc/pressure/cpu", "some avg10=1.00 avg60=2.00 avg300=3.00 total=5\n")
    machine.write("proc/pressure/io", "some avg10=0 avg60=0 avg300=0 total=7\nfull avg10=0 avg60=0 avg300=0 total=2\n")

    readings = pressure.open_pressure(machine.place(1)).read(SECOND)

    assert readings == [(contract.READING_PRESSURE, 5000, -1, 0, 0), (contract.READING_PRESSURE, 7000, 2000, 0, 1)]


def test_a_machine_without_pressure_is_nothing_special(machine: FakeMachine) -> None:
    with pytest.raises(Absent) as absent:
        pressure.open_pressure(machine.place(1))
    assert absent.value.usual

    # A kernel that is told not to measure it answers EOPNOTSUPP; an empty file is as good here.
    machine.write("proc/pressure/cpu", "")
    with pytest.raises(Absent) as absent:
        pressure.open_pressure(machine.place(1))
    assert absent.value.usual


MEMINFO = "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:    400 kB\nSwapTotal:      {swap} kB\nSwapFree:       50 kB\n"


def test_memory_and_swap_are_read(machine: FakeMachine) -> None:
    machine.write("proc/meminfo", MEMINFO.format(swap=100))
    machine.write("proc/vmstat", "nr_free_pages 1\n" + "x 1\n" * 3000 + "pswpin 3\npswpout 4\npgfault 5\n")

    readings = machine_memory.open_machine_memory(machine.place(1)).read(SECOND)

    assert readings == [
        (contract.READING_MEMORY, 1000 * 1024, 400 * 1024, 0, 0),
        (contract.READING_SWAP, 50 * 1024, 3 * PAGE_BYTES, 4 * PAGE_BYTES, 0),
    ]


def test_a_machine_without_swap_space_has_no_reading_of_it(machine: FakeMachine) -> None:
    machine.write("proc/meminfo", MEMINFO.format(swap=0))
    machine.write("proc/vmstat", "pswpin 3\n")

    assert len(machine_memory.open_machine_memory(machine.place(1)).read(SECOND)) == 1


DISKS = "   8 0 sda 10 0 20 5 7 0 40 9 0 60 14\n   8 1 sda1 10 0 20 5 7 0 40 9 0 60 14\n   7 0 loop0 1 0 1 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n"


def test_whole_disks_that_stand_on_hardware_are_read(machine: FakeMachine) -> None:
    machine.write("proc/diskstats", DISKS)
    (machine.sys / "block/sda/device").mkdir(parents=True)
    (machine.sys / "block/loop0").mkdir()
    reader = disk.open_disk(machine.place(1))

    assert reader.facts == [{"kind": "disk", "id": 0, "name": "sda"}]
    assert reader.read(SECOND) == [(contract.READING_DISK, 20 * 512, 40 * 512, 60 * MS, 0)]
    # Taken out in the middle of the run.
    machine.write("proc/diskstats", DISKS.splitlines()[2] + "\n")
    assert reader.read(2 * SECOND) == []


def test_a_container_that_shows_no_disks_is_nothing_special(machine: FakeMachine) -> None:
    with pytest.raises(Absent) as absent:
        disk.open_disk(machine.place(1))
    assert absent.value.usual


NETWORK = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0
  eth0:    1000       1    0    0    0     0          0         0       20       1    0    0    0     0       0          0
docker0:    900       1    0    0    0     0          0         0       10       1    0    0    0     0       0          0
"""


@pytest.mark.parametrize(("hardware", "received"), [(True, 1000), (False, 1900)])
def test_the_loopback_is_apart_and_a_bridge_counts_nothing_twice(machine: FakeMachine, hardware: bool, received: int) -> None:
    machine.write("proc/net/dev", NETWORK)
    (machine.sys / "class/net/eth0/device").mkdir(parents=True)
    if not hardware:
        (machine.sys / "class/net/eth0/device").rmdir()

    readings = network.open_network(machine.place(1)).read(SECOND)

    assert [(r[1], r[4]) for r in readings] == [(100, 1), (received, 0)]


# Control groups.


def test_version_two_of_control_groups(machine: FakeMachine) -> None:
    machine.write("proc/10/cgroup", "0::/pod/job\n")
    machine.write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n")
    machine.write("sys/fs/cgroup/pod/job/cpu.max", "max 100000\n")
    stat = "usage_usec 1\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5\n"
    machine.write("sys/fs/cgroup/pod/cpu.stat", stat)
    machine.write("sys/fs/cgroup/pod/memory.current", "900\n")
    machine.write("sys/fs/cgroup/pod/memory.max", "1000\n")
    machine.write("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 300\n")
    machine.write("sys/fs/cgroup/pod/job/memory.current", "800\n")
    machine.write("sys/fs/cgroup/pod/job/memory.max", "max\n")

    quota = throttling.open_throttling(machine.place(10))
    assert quota.read(SECOND) == [(contract.READING_QUOTA, 1500, 0, 0, 0), (contract.READING_THROTTLE, 10, 4, 5000, 0)]
    assert [reading[0] for reading in quota.read(2 * SECOND)] == [contract.READING_THROTTLE]
    assert group_memory.open_group_memory(machine.place(10)).read(SECOND) == [(contract.READING_GROUP_MEMORY, 900, 1000, 300, 0)]


def test_version_one_of_control_groups(machine: FakeMachine) -> None:
    machine.write("proc/10/cgroup", "4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n")
    machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n")
    machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.stat", "nr_periods 3\nnr_throttled 1\nthrottled_time 77\n")
    machine.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "900\n")
    machine.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n")
    machine.write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n")

    quota = throttling.open_throttling(machine.place(10)).read(SECOND)
    assert quota == [(contract.READING_QUOTA, 500, 0, 0, 0), (contract.READING_THROTTLE, 3, 1, 77, 0)]
    assert group_memory.open_group_memory(machine.place(10)).read(SECOND) == [(contract.READING_GROUP_MEMORY, 900, -1, 200, 0)]


def test_without_control_groups_there_is_no_quota_and_no_limit(machine: FakeMachine) -> None:
    machine.process(10)

    assert throttling.open_throttling(machine.place(10)).read(SECOND) == [(contract.READING_QUOTA, -1, 0, 0, 0)]
    with pytest.raises(Absent) as absent:
        group_memory.open_group_memory(machine.place(10))
    assert absent.value.usual


def test_a_container_that_sees_its_own_group_as_the_root_is_understood(machine: FakeMachine) -> None:
    machine.write("proc/10/cgroup", "0::/../../docker/abc\n")
    machine.write("sys/fs/cgroup/cpu.max", "200000 100000\n")

    quota = cgroups.find_quota(10, proc=str(machine.proc), sys=str(machine.sys))

    assert quota is not None
    assert (quota.cores, quota.folder) == (2.0, str(machine.sys / "fs/cgroup"))


@pytest.mark.parametrize("text", ["max 100000", "", "150000", "-1 100000", "150000 0"])
def test_what_is_no_quota_is_none(machine: FakeMachine, text: str) -> None:
    machine.write("proc/10/cgroup", "0::/\n")
    machine.write("sys/fs/cgroup/cpu.max", text)

    assert cgroups.find_quota(10, proc=str(machine.proc), sys=str(machine.sys)) is None


def test_a_quota_that_is_set_in_the_middle_of_the_run_is_said(machine: FakeMachine) -> None:
    machine.write("proc/10/cgroup", "0::/\n")
    reader = throttling.open_throttling(machine.place(10))
    reader.read(SECOND)

    machine.write("sys/fs/cgroup/cpu.max", "100000 100000\n")
    machine.write("sys/fs/cgroup/cpu.stat", "nr_periods 1\nnr_throttled 0\nthrottled_usec 0\n")

    assert reader.read(2 * SECOND) == []
    assert [reading[:2] for reading in reader.read(60 * SECOND)] == [(contract.READING_QUOTA, 1000), (contract.READING_THROTTLE, 1)]


def test_a_group_that_vanishes_in_the_middle_of_the_run_ends_its_monitor(machine: FakeMachine) -> None:
    machine.write("proc/10/cgroup", "0::/\n")
    machine.write("sys/fs/cgroup/memory.current", "9\n")
    machine.write("sys/fs/cgroup/memory.stat", "inactive_file 1\n")
    reader = group_memory.open_group_memory(machine.place(10))
    machine.write("sys/fs/cgroup/memory.current", "")

    with pytest.raises(ValueError):
        reader.read(SECOND)


# All of them.


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_no_reader_keeps_a_file_open_after_it_was_closed(machine: FakeMachine) -> None:
    from slowstep.record.monitors import Monitor, MonitoredCommand
    from slowstep.registry import discover

    before = set(os.listdir("/proc/self/fd"))
    place = MonitoredCommand(os.getpid())
    readers = []
    for monitor in discover("slowstep.record.monitors", "MONITOR").values():
        assert isinstance(monitor, Monitor)
        try:
            readers.append(monitor.open(place))
        except Absent:
            continue
    for reader in readers:
        reader.read(SECOND)
        reader.close()
    place.family.close()

    assert set(os.listdir("/proc/self/fd")) == before
