"""What the step's own work is made of: forward, backward, optimizer, and Python between them."""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"graph_products", "graph_unused", "graph_work", "graphs", "modes", "retraces"})
