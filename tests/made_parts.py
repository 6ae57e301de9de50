"""Parts of a ledger, as tests write them."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.device.charged import CHARGED
from slowstep.analyses.events.parts import COLUMNS, part_of
from slowstep.analyses.events.places import place_of_text
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.parts import CodePlace, Part, PartKind


def function_part(stage: str, name: str, file: str, line: int) -> Part:
    """A function of the user's."""
    return Part(stage, PartKind.FUNCTION, name, CodePlace(file, line))


def lines_part(stage: str, file: str, first: int, last: int | None = None) -> Part:
    """A line of the training loop itself, or those of a loop in it."""
    return Part(stage, PartKind.LINES, None, CodePlace(file, first, last))


def us_of(rows: pl.DataFrame | Ledger) -> dict[Part, float]:
    """What a ledger, or the rows of a table, have of each part, in us."""
    if isinstance(rows, Ledger):
        return {part: rows.total_of(part) / 1000 for part in rows.parts}
    return {part_of(row): ns / 1000 for *row, ns in rows.group_by(COLUMNS).agg(pl.col("ns").sum()).iter_rows()}


def charged_parts(rows: pl.DataFrame) -> list[Part | None]:
    """The part that each row of a table says most was charged to."""
    return [None if row[0] is None else part_of(row) for row in rows.select(CHARGED).iter_rows()]


def span_part(stage: str, name: str) -> Part:
    """What somebody has named."""
    return Part(stage, PartKind.SPAN, name)


def dry_part(call: str, where: str | None = None) -> Part:
    """The device has nothing to do after a call."""
    return Part("d2h", PartKind.RUN_DRY, call, None if where is None else place_of_text(where))
