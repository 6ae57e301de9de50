"""Gain by replay: how long steps would have taken with one thing changed."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"device_events", "host_events", "trace_devices", "trace_threads"})
