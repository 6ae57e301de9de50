"""Declared tables that grow piece by piece: kept by column in the declared types or, above a limit, as Parquet files of successive pieces.

A table is taken out column by column, so that it is never there twice.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.timeline.intervals import Ints
from slowstep.timeline.schema import TABLE
from slowstep.timeline.table import DataType, light

# Of the memory that is allowed: the finished tables and what a piece is read with take the rest.
HELD_SHARE: Final = 1 / 4

Order = pl.Series | None


class GatheredTable:
    """The rows of one declared table, and columns of `other` types. A column that a piece lacks is null there, and takes no room."""

    def __init__(self, table: str, **other: DataType) -> None:
        self.rows = self.held_bytes = 0
        self._declared = tuple(TABLE[table].schema)
        self._types: dict[str, DataType] = {**TABLE[table].schema, **other}
        self._parts: dict[str, list[pl.Series | int]] = {column: [] for column in self._types}
        self._files: list[Path] = []
        self._name = table

    def add(self, frame: pl.DataFrame) -> None:
        """Append rows; what does not fit into a column's type is null."""
        for name, kind in self._types.items():
            values = frame[name].cast(kind, strict=False) if name in frame.columns else None
            if values is None or values.null_count() == len(frame):
                self._parts[name].append(len(frame))
            else:
                self._parts[name].append(values)
                self.held_bytes += int(values.estimated_size())
        self.rows += len(frame)

    def spill(self, folder: Path) -> None:
        """Write what is in memory to a file in `folder`."""
        if not any(self._parts.values()):
            return
        file = folder / f"{self._name}-{len(self._files)}.parquet"
        columns = {name: self._joined(name) for name in self._types}
        pl.DataFrame(columns).write_parquet(file, compression="lz4", statistics=False)
        self._files.append(file)
        self.held_bytes = 0

    def column(self, name: str) -> pl.Series:
        """All values of a column, in the order in which they came; it can be taken once."""
        parts = [pl.read_parquet(file, columns=[name])[name].cast(self._types[name]) for file in self._files]
        parts.append(self._joined(name))
        return parts[0] if len(parts) == 1 else pl.concat(parts, rechunk=True)

    def finished(self, order: Order, first_ns: int, taken: dict[str, pl.Series]) -> pl.DataFrame:
        """The table, its times counted from `first_ns`; `order` says which rows, None all as they came. `taken` are columns that were
        taken out before: they are used up.
        """
        return light(self._finished(name, taken, order, first_ns) for name in self._declared)

    def _finished(self, name: str, taken: dict[str, pl.Series], order: Order, first_ns: int) -> pl.Series:
        values = taken.pop(name) if name in taken else self.column(name)
        if order is not None:
            empty = values.null_count() == len(values)
            values = _nulls(self._types[name], len(order)) if empty else values.gather(order)
        if name.endswith("_ns") and first_ns:
            values = values - first_ns
        return values.cast(TABLE[self._name].schema[name], strict=False).alias(name)

    def _joined(self, name: str) -> pl.Series:
        kind, parts = self._types[name], self._parts[name]
        self._parts[name] = []
        if all(isinstance(part, int) for part in parts):
            return _nulls(kind, sum(part for part in parts if isinstance(part, int))).alias(name)
        return pl.concat([_nulls(kind, part) if isinstance(part, int) else part.rename("") for part in parts], rechunk=True).alias(name)


def _nulls(kind: DataType, count: int) -> pl.Series:
    return pl.repeat(None, count, dtype=kind, eager=True).rename("")


class Shelf:
    """The growing tables of one file that is read; together they hold at most a part of `limit_bytes` (None: whatever they take) in memory.

    Files are removed with `stack`.
    """

    def __init__(self, stack: ExitStack, limit_bytes: int | None) -> None:
        self._stack, self._limit_bytes = stack, limit_bytes
        self._folder: Path | None = None
        self._tables: list[GatheredTable] = []

    def table(self, name: str, **other: DataType) -> GatheredTable:
        """A new table."""
        made = GatheredTable(name, **other)
        self._tables.append(made)
        return made

    def add(self, table: GatheredTable, frame: pl.DataFrame) -> None:
        """Append rows to one of the tables, and make room where there are too many."""
        table.add(frame)
        if self._limit_bytes is None or sum(each.held_bytes for each in self._tables) <= self._limit_bytes * HELD_SHARE:
            return
        if self._folder is None:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slowstep-")))
        for each in self._tables:
            each.spill(self._folder)


def in_order(start_ns: Ints, kept: NDArray[Any] | None = None) -> Order:
    """The rows by time, only those that are kept; equal ones as they came. None where that is all of them as they are."""
    rows = None if kept is None else np.flatnonzero(kept).astype(np.uint32)
    times = start_ns if rows is None else start_ns[rows]
    if bool((times[1:] >= times[:-1]).all()):
        return None if rows is None else pl.Series(rows)
    order = np.argsort(times, kind="stable").astype(np.uint32)
    return pl.Series(order if rows is None else rows[order])
