"""The tables of a timeline, all declared in one way: row meaning, columns, types, units.

A source fills these tables and states by nulls what it cannot know. Analyses read nothing else.
"""

from __future__ import annotations

from slowstep.timeline.machine_tables import MACHINE_TABLES
from slowstep.timeline.pipeline_tables import PIPELINE_TABLES
from slowstep.timeline.process_tables import PROCESS_TABLES
from slowstep.timeline.table import Table
from slowstep.timeline.trace_tables import TRACE_TABLES

# What a recording is read into; a trace fills TRACE_TABLES instead.
TABLES: tuple[Table, ...] = (*PROCESS_TABLES, *PIPELINE_TABLES, *MACHINE_TABLES)
TABLE: dict[str, Table] = {table.name: table for table in (*TABLES, *TRACE_TABLES)}
