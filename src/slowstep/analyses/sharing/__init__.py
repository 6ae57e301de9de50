"""Gradient sharing: collectives and what is waited for in them."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"backward_cpu", "device_events", "host_events", "updates"})
