from __future__ import annotations

import runpy
from pathlib import Path

from slowstep.analyses.trace.tables import TRACE_MEASUREMENT_TABLES
from slowstep.timeline.trace_tables import TRACE_TABLES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_tables_is_what_the_declarations_say():
    made = runpy.run_path(str(DOCS / "tables.py"))["page"]()

    assert made == (DOCS / "tables.md").read_text(encoding="utf-8"), "run: python docs/tables.py"


def test_every_table_and_column_is_on_the_page():
    text = (DOCS / "tables.md").read_text(encoding="utf-8")
    tables = [*TRACE_TABLES, *TRACE_MEASUREMENT_TABLES]

    assert [table.name for table in tables if f"### `{table.name}`" not in text] == []
    assert [column.name for table in tables for column in table.columns if f"| `{column.name}` |" not in text] == []
