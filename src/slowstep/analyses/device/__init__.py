"""What a trace tells of the device: kernels, copies, waits, launches, one declared table each."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"allocations", "device_events", "host_events", "trace_devices"})
