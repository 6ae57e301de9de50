"""How tables are declared: row meaning, columns, types, units. The declaration is the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl

DataType = pl.DataType | type[pl.DataType]


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column: its name (with the unit in it where it has one), type, meaning, and whether a value may be unknown."""

    name: str
    type: DataType
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table: `row` says in one sentence what a row is."""

    name: str
    row: str
    columns: tuple[Column, ...] = field(default=())

    @property
    def schema(self) -> dict[str, DataType]:
        """The column types in the form that polars takes."""
        return {column.name: column.type for column in self.columns}

    def empty(self) -> pl.DataFrame:
        """The table without rows: what is handed over where none of these was seen."""
        return _empty(self)

    def of(self, rows: list[tuple[Any, ...]]) -> pl.DataFrame:
        """The table of rows, each a value for every column in their order."""
        return pl.DataFrame(rows, schema=self.schema, orient="row") if rows else _empty(self)


# Most tables of most recordings are: made once, they cost nothing of what reading a short recording takes.
@cache
def _empty(table: Table) -> pl.DataFrame:
    return pl.DataFrame(schema=table.schema)


def light(columns: Iterable[pl.Series]) -> pl.DataFrame:
    """A frame of columns of one length, made one after the other; those that hold nothing but null are kept as one null for all rows.

    Sources know few of the columns that tables have, and every filter and join of a table would carry the others along.
    """
    order: list[str] = []
    known: list[pl.Series] = []
    unknown: dict[str, pl.DataType] = {}
    for values in columns:
        order.append(values.name)
        if known and len(values) and values.null_count() == len(values):
            unknown[values.name] = values.dtype
        else:
            known.append(values)
    return pl.DataFrame(known).with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in unknown.items()).select(order)


def column(name: str, kind: DataType, meaning: str, *, nullable: bool = False) -> Column:
    """A column in one line."""
    return Column(name=name, type=kind, meaning=meaning, nullable=nullable)
