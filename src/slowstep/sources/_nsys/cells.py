"""A chunk of rows as one text that SQLite makes, and that text as columns."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

# ASCII's own separators of fields and records. Where a text of the file holds one, it gets a blank in its place.
FIELD: Final = "\x1f"
RECORD: Final = "\x1e"


@dataclass(frozen=True, slots=True)
class Query:
    """What is read of one table. `row` is one SQL expression that makes a text of all columns; `clean` too, slower, with texts cleaned."""

    table: str
    row: str
    clean: str
    where: str
    schema: Mapping[str, pl.DataType | type[pl.DataType]]


def number(column: str) -> str:
    """The SQL expression for a column, or a product of columns, as a whole number."""
    product = " * ".join(f'CAST("{part}" AS INTEGER)' for part in column.split(" * "))
    # A product beyond 64 bits becomes a floating-point number, and is unknown then.
    return f"coalesce(CASE WHEN typeof({product}) = 'integer' THEN {product} END, '')" if "*" in product else f"coalesce({product}, '')"


def text(column: str) -> str:
    """The SQL expression for a column as a text."""
    return f"coalesce(CAST(\"{column}\" AS TEXT), '')"


def without_separators(cell: str) -> str:
    """The SQL expression for a cell that holds no separator."""
    return f"replace(replace({cell}, '{FIELD}', ' '), '{RECORD}', ' ')"


def frame_of(lines: bytes, query: Query) -> pl.DataFrame:
    """The columns of a text of rows."""
    if not lines:
        return pl.DataFrame(schema=query.schema)
    try:
        return _parsed(lines, query)
    except pl.exceptions.ComputeError:
        return _parsed(lines.decode("utf-8", "replace").encode(), query)


def _parsed(lines: bytes, query: Query) -> pl.DataFrame:
    return pl.read_csv(
        io.BytesIO(lines), has_header=False, separator=FIELD, eol_char=RECORD, quote_char=None, schema=query.schema, infer_schema=False
    )
