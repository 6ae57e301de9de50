"""The tables of what was read during the training: of its process tree, of the machine, and of its accelerators."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.table import Table, column

TIME = column("time_ns", pl.Int64, "when it was taken, CLOCK_MONOTONIC")

MACHINE_TABLES: tuple[Table, ...] = (
    Table(
        name="readings",
        row="One row per reading of the machine's processors by the launcher.",
        columns=(
            TIME,
            column("tree_cpu_ns", pl.Int64, "CPU time of the training's process tree so far"),
            column("busy_cpu_ns", pl.Int64, "CPU time of everybody so far"),
            column("stolen_cpu_ns", pl.Int64, "CPU time that the hypervisor took so far"),
        ),
    ),
    Table(
        name="launcher_costs",
        row="One row per reading of what slowstep's own thread costs, which reads the monitors.",
        columns=(TIME, column("cpu_ns", pl.Int64, "CPU time that it has used so far")),
    ),
    Table(
        name="run_delays",
        row="One row per reading of how long the threads of the training's process tree stood in a queue for a core.",
        columns=(
            TIME,
            column("delay_ns", pl.Int64, "run-queue delay of the threads watched so far"),
            column("watched", pl.Int64, "threads watched"),
            column("threads", pl.Int64, "threads of the tree"),
        ),
    ),
    Table(
        name="tree_io",
        row="One row per reading of what the training's process tree reads and writes.",
        columns=(
            TIME,
            column("called_bytes", pl.Int64, "bytes that read calls returned so far"),
            column("read_bytes", pl.Int64, "bytes that came from storage so far"),
            column("written_bytes", pl.Int64, "bytes that went to storage so far"),
        ),
    ),
    Table(
        name="tree_memory",
        row="One row per reading of the memory that the training's process tree holds.",
        columns=(
            TIME,
            column("resident_bytes", pl.Int64, "resident memory of all processes; shared pages count in each"),
            column("own_bytes", pl.Int64, "of them pages of no file and shared with nobody"),
            column("largest_bytes", pl.Int64, "such pages of the process that has most"),
            column("largest_pid", pl.Int64, "process id of that process"),
        ),
    ),
    Table(
        name="tree_faults",
        row="One row per reading of the page faults of the training's process tree.",
        columns=(
            TIME,
            column("minor", pl.Int64, "faults served from memory so far"),
            column("major", pl.Int64, "faults served from storage so far"),
        ),
    ),
    Table(
        name="machine_times",
        row="One row per reading of the time in which the machine's cores did nothing.",
        columns=(
            TIME,
            column("idle_ns", pl.Int64, "idle time of all cores so far, without waiting for storage"),
            column("storage_ns", pl.Int64, "idle time of all cores with a task waiting for storage so far (iowait)"),
        ),
    ),
    Table(
        name="pressures",
        row="One row per reading of the time in which tasks of the machine stood still for want of a resource.",
        columns=(
            TIME,
            column("resource", pl.String, "cpu, io or memory"),
            column("some_ns", pl.Int64, "time in which some task stood still so far"),
            column("full_ns", pl.Int64, "time in which all tasks stood still so far", nullable=True),
        ),
    ),
    Table(
        name="throttles",
        row="One row per reading of how often the control group's CPU quota held its processes back.",
        columns=(
            TIME,
            column("periods", pl.Int64, "periods of the quota so far"),
            column("throttled", pl.Int64, "periods in which it was used up so far"),
            column("throttled_ns", pl.Int64, "time held back so far, of all cores added"),
        ),
    ),
    Table(
        name="quotas",
        row="One row per change of the control group's CPU quota, the first included.",
        columns=(TIME, column("cores", pl.Float64, "cores' worth of CPU time allowed; null is no limit", nullable=True)),
    ),
    Table(
        name="affinities",
        row="One row per change of the cores that a process of the tree may use, the first included.",
        columns=(
            TIME,
            column("pid", pl.Int64, "process id"),
            column("cores", pl.Int64, "cores that its main thread and those bound as tightly may use together"),
            column("main_cores", pl.Int64, "cores that its main thread may use"),
            column("which", pl.Int64, "which cores those together are, a bit each; 0 where that is not known"),
        ),
    ),
    Table(
        name="group_memory",
        row="One row per reading of the memory that the control group uses.",
        columns=(
            TIME,
            column("used_bytes", pl.Int64, "memory charged to the group"),
            column("droppable_bytes", pl.Int64, "file pages in it that can be dropped", nullable=True),
            column("limit_bytes", pl.Int64, "what it may use; null is no limit", nullable=True),
        ),
    ),
    Table(
        name="machine_memory",
        row="One row per reading of the machine's memory.",
        columns=(
            TIME,
            column("total_bytes", pl.Int64, "memory of the machine"),
            column("available_bytes", pl.Int64, "memory that can be had without swapping"),
        ),
    ),
    Table(
        name="swap",
        row="One row per reading of the machine's swap space, where it has any.",
        columns=(
            TIME,
            column("free_bytes", pl.Int64, "swap space that is free"),
            column("in_bytes", pl.Int64, "bytes swapped in so far"),
            column("out_bytes", pl.Int64, "bytes swapped out so far"),
        ),
    ),
    Table(
        name="disks",
        row="One row per reading of a disk of the machine.",
        columns=(
            TIME,
            column("disk", pl.String, "the kernel's name of it", nullable=True),
            column("read_bytes", pl.Int64, "bytes read so far"),
            column("written_bytes", pl.Int64, "bytes written so far"),
            column("busy_ns", pl.Int64, "time in which it had something to do so far"),
        ),
    ),
    Table(
        name="network",
        row="One row per reading of the machine's network interfaces.",
        columns=(
            TIME,
            column("loopback", pl.Boolean, "what the machine sends to itself; else all other interfaces together"),
            column("received_bytes", pl.Int64, "bytes received so far"),
            column("sent_bytes", pl.Int64, "bytes sent so far"),
        ),
    ),
    Table(
        name="devices",
        row="One row per accelerator of the machine.",
        columns=(
            column("device", pl.Int64, "its number, in the order of the PCI bus"),
            column("name", pl.String, "what its maker calls it", nullable=True),
            column("uuid", pl.String, "its identity", nullable=True),
            column("memory_bytes", pl.Int64, "its memory", nullable=True),
            column("most_sm_mhz", pl.Int64, "highest clock of its multiprocessors", nullable=True),
            column("most_memory_mhz", pl.Int64, "highest clock of its memory", nullable=True),
            column("power_limit_mw", pl.Int64, "power allowed", nullable=True),
            column("default_power_limit_mw", pl.Int64, "power that it is made for", nullable=True),
            column("link_generation", pl.Int64, "highest PCIe generation of its link", nullable=True),
            column("link_lanes", pl.Int64, "most PCIe lanes of its link", nullable=True),
        ),
    ),
    Table(
        name="device_readings",
        row="One row per reading of an accelerator.",
        columns=(
            TIME,
            column("device", pl.Int64, "its number in `devices`"),
            column("busy_percent", pl.Int64, "time in which a kernel ran, percent of the last period", nullable=True),
            column("memory_busy_percent", pl.Int64, "time in which its memory was accessed, percent", nullable=True),
            column("used_bytes", pl.Int64, "memory used, everybody's", nullable=True),
            column("sm_mhz", pl.Int64, "clock of its multiprocessors", nullable=True),
            column("memory_mhz", pl.Int64, "clock of its memory", nullable=True),
            column("state", pl.Int64, "performance state: 0 the fastest, 15 the slowest", nullable=True),
            column("lowered_by", pl.Int64, "why clocks are lowered, bits of nvmlClocksEventReasons", nullable=True),
            column("power_mw", pl.Int64, "power drawn", nullable=True),
            column("temperature_c", pl.Int64, "temperature", nullable=True),
            column("link_generation", pl.Int64, "PCIe generation of its link now", nullable=True),
            column("link_lanes", pl.Int64, "PCIe lanes of its link now", nullable=True),
            column("received_per_s", pl.Int64, "bytes/s received over PCIe (read now and then)", nullable=True),
            column("sent_per_s", pl.Int64, "bytes/s sent over PCIe (read now and then)", nullable=True),
            column("own_processes", pl.Int64, "processes of the training on it", nullable=True),
            column("other_processes", pl.Int64, "other processes on it", nullable=True),
            column("others_bytes", pl.Int64, "memory that those hold", nullable=True),
        ),
    ),
)
