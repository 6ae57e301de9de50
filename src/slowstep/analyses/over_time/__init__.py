"""What is not the same in every step: growth, periods, the machine's pace, the start."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"tree_io"})
