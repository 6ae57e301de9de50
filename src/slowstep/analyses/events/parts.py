"""The parts of a trace's ledger: what an instant can be charged to, and how tables hold it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.events.places import place_of_text, place_text
from slowstep.part_words import parts_in_order
from slowstep.parts import Part, PartKind, PartPiece, PieceKind
from slowstep.stages import UNATTRIBUTED

# With the device at work.
KERNELS: Final = Part("compute", PartKind.KERNELS)
DEVICE_COPIES: Final = Part("compute", PartKind.DEVICE_COPIES)
MEMSETS: Final = Part("compute", PartKind.MEMSETS)
COLLECTIVES: Final = Part("gradient_sharing", PartKind.COLLECTIVES)
COPIES: Final = {stage: Part(stage, PartKind.COPIES) for stage in ("h2d", "d2h")}
# With the device idle.
LAUNCH: Final = Part("compute", PartKind.LAUNCH)
NO_LAUNCH: Final = Part(UNATTRIBUTED, PartKind.NO_LAUNCH)
INPUT_WAIT: Final = Part("preprocess", PartKind.INPUT_WAIT)
NOTHING_RECORDED: Final = Part(UNATTRIBUTED, PartKind.NOTHING_RECORDED)
# In a trace without a device: operators, by direction where that is told, and what is between them.
FORWARD: Final = Part("compute", PartKind.FORWARD)
OPERATORS: Final = Part("compute", PartKind.OPERATORS)
BETWEEN_OPERATORS: Final = Part("compute", PartKind.BETWEEN_OPERATORS)

# The columns of tables that tell a part.
COLUMNS: Final = ("stage", "kind", "name", "place")
SCHEMA: Final = pl.Schema(dict.fromkeys(COLUMNS, pl.String()))


def rows_of(parts: Iterable[Part]) -> pl.DataFrame:
    """One row for each of some parts: the columns COLUMNS."""
    return pl.DataFrame([row_of(part) for part in parts], schema=SCHEMA, orient="row")


def row_of(part: Part) -> tuple[str, str, str | None, str | None]:
    """What the columns COLUMNS hold of a part."""
    return part.stage, part.kind.value, part.name, None if part.place is None else place_text(part.place)


def parts_of(rows: pl.DataFrame, columns: tuple[str, ...] = COLUMNS) -> list[Part]:
    """The parts that are in rows of a table, each once, in order."""
    return parts_in_order(part_of(row) for row in rows.select(columns).unique().iter_rows() if row[0] is not None)


def part_of(row: Iterable[Any]) -> Part:
    """The part of which a row has the columns COLUMNS."""
    stage, kind, name, place = row
    return Part(stage, PartKind(kind), name, None if place is None else place_of_text(place))


def numbered(rows: pl.DataFrame) -> tuple[list[Part], NDArray[np.int64]]:
    """The parts that are in rows of a table, each once, and for each row the number of its part."""
    each = rows.select(COLUMNS).unique(maintain_order=True)
    number = rows.join(each.with_row_index("number"), on=COLUMNS, how="left", nulls_equal=True, maintain_order="left")["number"]
    parts = [part_of(row) for row in each.iter_rows()]
    return parts, number.cast(pl.Int64).to_numpy()


def is_part(*parts: Part, columns: tuple[str, ...] = COLUMNS) -> pl.Expr:
    """Which rows of a table are of one of some parts."""
    return pl.any_horizontal(pl.lit(value=False), *(_is_one(part, columns) for part in parts))


def _is_one(part: Part, columns: tuple[str, ...]) -> pl.Expr:
    same = (pl.col(name).eq_missing(pl.lit(value, dtype=pl.String)) for name, value in zip(columns, row_of(part), strict=True))
    return pl.all_horizontal(*same)


def piece(part: Part, kind: PieceKind, *names: str | None, of: Part | None = None) -> Part:
    """The claim of a finding that concerns only a piece of a part of the ledger."""
    return replace(part, piece=PartPiece(kind, names, of))
