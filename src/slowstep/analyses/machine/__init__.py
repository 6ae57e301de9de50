"""The machine beside the training: what was used of its cores, memory and devices, and what recording cost."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset(
    {
        "affinities",
        "calls",
        "device_readings",
        "devices",
        "group_memory",
        "launcher_costs",
        "machine_memory",
        "machine_times",
        "pressures",
        "processes",
        "quotas",
        "readings",
        "run_delays",
        "swap",
        "throttles",
        "tree_faults",
        "tree_memory",
        "updates",
    }
)
