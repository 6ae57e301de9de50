"""docs/tables.md and docs/recording-tables.md, made from the declared tables of traces and of recordings."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.events.tables import TRACE_MEASUREMENT_TABLES
from slowstep.registry import discover
from slowstep.sources._source import Source
from slowstep.timeline.coverage import KINDS, CoverageLevel, CoveredSteps, KindCoverage, ShownWith
from slowstep.timeline.machine_tables import MACHINE_TABLES
from slowstep.timeline.pipeline_tables import PIPELINE_TABLES
from slowstep.timeline.schema import PROCESS_TABLES
from slowstep.timeline.table import Column, Table
from slowstep.timeline.trace_tables import TRACE_TABLES

BEGINNING = """# The tables of a trace

Generated from the declarations by `python tools/pages.py`; a test holds it against them. Times are nanoseconds on the trace's clock.
Values that may be unknown are marked `null`: unknown is never 0. Those of a recording: [recording-tables.md](recording-tables.md).

## How much sources see

As each states it (`COVERAGE` in `src/slowstep/sources/`), at most: what a profiler was not asked for, its trace does not have, and the
timeline of that trace states so (`Timeline.coverage`).
Where a kind is not exact, the absence of a row says nothing.

"""
READ = """
## What sources read

Declared in `src/slowstep/timeline/trace_tables.py`; every source of traces in `src/slowstep/sources/` fills them.
"""
MEASURED = """
## What analyses measure

Declared in `src/slowstep/analyses/events/tables.py`, one analysis in `src/slowstep/analyses/` each; this is what rules see. `step`
is the row number in `steps`. Device time is that of the whole device: an instant in which two streams work counts once, where a column
does not say otherwise.
"""

BEGINNING_OF_RECORDINGS = """# The tables of a recording

Generated from the declarations by `python tools/pages.py`; a test holds it against them. Times are nanoseconds of CLOCK_MONOTONIC, which
all processes of a machine share. Values that may be unknown are marked `null`: unknown is never 0. `slowstep analyze DIR --export parquet`
writes them. How they lie in a recording's files is told in `src/slowstep/record/writing/format.py`; those of a trace, and how much each
source sees, in [tables.md](tables.md).

## What the processes of the training did

Declared in `src/slowstep/timeline/`: `input_tables.py`, `step_tables.py` and `python_tables.py`, which `schema.py` puts together.
"""
OF_THE_MACHINE = """
## What the machine did meanwhile

Declared in `src/slowstep/timeline/machine_tables.py`; one monitor in `src/slowstep/record/monitors/` reads each.
[monitors.md](monitors.md) says how often.
"""


def page() -> str:
    """The text of the page of traces."""
    parts = [BEGINNING, _coverage(), READ, *map(_section, TRACE_TABLES), MEASURED, *map(_section, TRACE_MEASUREMENT_TABLES)]
    return "".join(parts)


def recordings_page() -> str:
    """The text of the page of recordings."""
    return "".join(
        (BEGINNING_OF_RECORDINGS, *map(_section, (*PROCESS_TABLES, *PIPELINE_TABLES)), OF_THE_MACHINE, *map(_section, MACHINE_TABLES))
    )


def _coverage() -> str:
    """What each source states of each kind."""
    sources = discover("slowstep.sources", "SOURCE", Source)
    rows = [
        " | ".join((f"{kind}: {what}", *(_stated(source.coverage[kind]) for source in sources.values()))) for kind, what in KINDS.items()
    ]
    head = [" | ".join(("", *sources)), " | ".join(["---"] * (len(sources) + 1))]
    return "".join(f"| {row} |\n" for row in (*head, *rows))


STEPS = {
    CoveredSteps.ALL: "every step",
    CoveredSteps.ONE_IN_SEVERAL: "every step, in a long recording one in several",
    CoveredSteps.TRACED: "every traced step",
}
SHOWN_WITH = {
    ShownWith.NVTX_RANGE: "that an NVTX range marks",
    ShownWith.ACCELERATOR: "of an accelerator",
    ShownWith.ASKED_DEVICE: "where the device was asked",
}


def _stated(coverage: KindCoverage) -> str:
    if coverage.known is CoverageLevel.NONE:
        return coverage.known.value
    shown = coverage.shown_with
    condition = "" if shown is None else f" {SHOWN_WITH.get(shown, f'with `{shown.value}`')}"
    return f"{coverage.known.value}, {STEPS[coverage.steps]}{condition}"


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
