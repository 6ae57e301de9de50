"""The batches of the training: who made each, what that took, and what the training thread waited for."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"aggregates", "batch_forms", "collates", "fetches", "idles", "iterators", "processes"})
