"""The user's functions: which of them held a thread, by stacks and by timed calls, and who called."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset(
    {
        "call_edges",
        "called",
        "calls",
        "collections",
        "cpu_marks",
        "device_events",
        "frames",
        "host_events",
        "lines",
        "stacks",
        "threads",
        "timed_stretches",
    }
)
