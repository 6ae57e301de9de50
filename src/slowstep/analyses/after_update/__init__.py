"""The gap between an update and the next forward, divided by stacks and by timed calls."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"call_edges", "calls", "lines", "timed_stretches"})
