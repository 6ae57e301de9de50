"""The rows of a trace as analyses ask for them: names, nesting, unions of intervals, calls of the runtime, the device's work."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"device_events", "host_events", "marked_steps"})
