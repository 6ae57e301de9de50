"""All ranks of a training together: who they are and who is missing, and whose own work the others wait for."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"updates"})
