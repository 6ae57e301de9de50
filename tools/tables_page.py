"""docs/tables.md, made from the declared tables of traces."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.events.tables import TRACE_MEASUREMENT_TABLES
from slowstep.timeline.table import Column, Table
from slowstep.timeline.trace_tables import TRACE_TABLES

BEGINNING = """# The tables of a trace

Generated from the declarations by `python tools/pages.py`; a test holds it against them. Times are nanoseconds on the trace's clock.
Values that may be unknown are marked `null`: unknown is never 0.

## What sources read

Declared in `src/slowstep/timeline/trace_tables.py`; every source of traces in `src/slowstep/sources/` fills them.
"""
MEASURED = """
## What analyses measure

Declared in `src/slowstep/analyses/events/tables.py`, one analysis in `src/slowstep/analyses/` each; this is what rules see. `step`
is the row number in `steps`. Device time is that of the whole device: an instant in which two streams work counts once, where a column
does not say otherwise.
"""


def page() -> str:
    """The text of the page."""
    parts = [BEGINNING, *map(_section, TRACE_TABLES), MEASURED, *map(_section, TRACE_MEASUREMENT_TABLES)]
    return "".join(parts)


def _section(table: Table) -> str:
    rows = "".join(map(_row, table.columns))
    return f"\n### `{table.name}`\n\n{table.row}\n\n| column | type | meaning |\n| --- | --- | --- |\n{rows}"


def _row(column: Column) -> str:
    unknown = ", null" if column.nullable else ""
    return f"| `{column.name}` | {_type(column)}{unknown} | {column.meaning} |\n"


def _type(column: Column) -> str:
    if isinstance(column.type, pl.Enum):
        return "one of " + ", ".join(column.type.categories)
    return str(column.type).lower().replace("categorical", "string")
