"""Who trains, in which process and on which thread, and where each step begins and ends: of recordings and of traces."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset(
    {
        "calls",
        "collections",
        "cpu_marks",
        "device_events",
        "host_events",
        "input_code",
        "iterators",
        "marked_steps",
        "processes",
        "spans",
        "stacks",
        "starts",
        "totals",
        "updates",
        "waits",
    }
)
