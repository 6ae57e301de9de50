"""Large tables of a trace in a file without a name, by column: an analysis holds the rows and columns that it asks for, while it runs.

All analyses of a trace together ask for every column, none for more than a few. The file is gone with the process, however that ends.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Collection, Iterator, Mapping
from typing import IO, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[Any]
Rows = NDArray[np.uint32]

# A table that takes less is kept as it is.
SMALLEST_BYTES: Final = 1 << 22
# Rows that are read at one time, into room that is used again.
SLICE: Final = 1 << 16


class Stored(Mapping[str, pl.DataFrame]):
    """Tables by name, those that are large in a temporary file. Of one that is looked up as in any mapping all columns are read.

    `tables`: emptied, so that each goes out of memory as soon as it is written. Raises OSError where no such file can be written.
    """

    def __init__(self, tables: dict[str, pl.DataFrame]) -> None:
        self._file = tempfile.TemporaryFile(prefix="slowstep-")  # noqa: SIM115 - closed when this object goes
        weakref.finalize(self, self._file.close)
        self._small: dict[str, pl.DataFrame] = {}
        self._large: dict[str, dict[str, _Column]] = {}
        while tables:
            name, frame = tables.popitem()
            if frame.estimated_size() < SMALLEST_BYTES or not all(_is_plain(kind) for kind in frame.dtypes):
                self._small[name] = frame
            else:
                self._large[name] = {values.name: _Column(self._file, values) for values in frame.iter_columns()}
        self._file.flush()

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self._small[name] if name in self._small else self.rows(name, tuple(self._large[name]))

    def __contains__(self, name: object) -> bool:
        # As mappings have it, the table would be read to be told that it is there.
        return name in self._small or name in self._large

    def __iter__(self) -> Iterator[str]:
        yield from self._small
        yield from self._large

    def __len__(self) -> int:
        return len(self._small) + len(self._large)

    def count(self, name: str) -> int:
        """How many rows a table has."""
        return len(self._small[name]) if name in self._small else next(iter(self._large[name].values())).rows

    def rows(self, name: str, columns: Collection[str], kinds: Collection[str] = ()) -> pl.DataFrame:
        """Some columns of a table; with `kinds` only the rows whose column `kind` holds one of these."""
        if name in self._small:
            return chosen(self._small[name], columns, kinds)
        table = self._large[name]
        wanted = None
        if kinds:
            codes = pl.Series(list(kinds), dtype=table["kind"].type).to_physical().to_numpy()
            wanted = table["kind"].rows_with(codes)
        return _side_by_side({column: table[column] for column in columns}, wanted)


def chosen(frame: pl.DataFrame, columns: Collection[str], kinds: Collection[str] = ()) -> pl.DataFrame:
    """The same of a table in memory."""
    rows = frame.select(*columns, *({"kind"} - set(columns))) if kinds else frame.select(columns)
    return rows.filter(pl.col("kind").is_in(list(kinds))).select(columns) if kinds else rows


class _Column:
    """One column in the file: its numbers (codes of categories) and, where some are null, which are not; nothing where all are."""

    def __init__(self, file: IO[bytes], values: pl.Series) -> None:
        self._file = file
        self.type, self.rows = values.dtype, len(values)
        self.empty = values.null_count() == len(values)
        self._at = self._known_at = -1
        # Categories live as long as there is a column that holds them.
        self._categories = values.unique() if values.dtype == pl.Categorical else None
        if self.empty:
            return
        numbers = values.to_physical()
        if values.null_count():
            self._known_at = _written(file, values.is_not_null().to_numpy())
            numbers = numbers.fill_null(False if values.dtype == pl.Boolean else 0)
        array = numbers.to_numpy()
        self._kind = array.dtype
        self._at = _written(file, array)

    def rows_with(self, codes: Array) -> Rows:
        """The rows in which one of these numbers stands, in order, shape (m,)."""
        # Kinds are one byte long: each is looked up in a table of all that there can be.
        is_wanted = np.isin(np.arange(np.iinfo(self._kind).max + 1), codes) if self._kind.itemsize == 1 else None
        found = [
            first + np.flatnonzero(np.isin(values, codes) if is_wanted is None else is_wanted.take(values))
            for first, values in self._slices(self._at, self._kind)
        ]
        return np.concatenate(found).astype(np.uint32)

    def series(self, wanted: Rows | None) -> pl.Series:
        """The values of these rows (None: of all)."""
        values = pl.Series(self._array(self._at, self._kind, wanted))
        if self.type in (pl.Categorical, pl.Enum):
            values = values.cat.to(self.type)
        if self._known_at >= 0:
            known = pl.Series(self._array(self._known_at, np.dtype(np.bool_), wanted))
            values = values.set(~known, None)
        return values

    def _array(self, at: int, kind: np.dtype[Any], wanted: Rows | None) -> Array:
        found = np.empty(self.rows if wanted is None else len(wanted), dtype=kind)
        for first, values in self._slices(at, kind):
            if wanted is None:
                found[first : first + len(values)] = values
                continue
            # Of the same type: otherwise all of them would be converted for each slice.
            begin, end = np.searchsorted(wanted, np.array((first, first + len(values)), dtype=wanted.dtype))
            # Where it has not to look whether they lie inside, numpy takes them without a copy in between.
            np.take(values, wanted[begin:end] - np.uint32(first), out=found[begin:end], mode="clip")
        return found

    def _slices(self, at: int, kind: np.dtype[Any]) -> Iterator[tuple[int, Array]]:
        """The number of the first row, and the values of some rows, valid until the next ones."""
        buffer = np.empty(min(SLICE, self.rows), dtype=kind)
        for first in range(0, self.rows, SLICE):
            some = buffer[: self.rows - first]
            os.preadv(self._file.fileno(), [some.data], at + first * kind.itemsize)
            yield first, some


def _side_by_side(columns: Mapping[str, _Column], wanted: Rows | None) -> pl.DataFrame:
    """A frame of columns, read one after the other; those that hold nothing but null take no room in it."""
    known = {name: column.series(wanted).alias(name) for name, column in columns.items() if not column.empty}
    unknown = [pl.lit(None, dtype=column.type).alias(name) for name, column in columns.items() if column.empty]
    return pl.DataFrame(known).with_columns(unknown).select(columns.keys())


def _is_plain(kind: pl.DataType) -> bool:
    return kind.is_numeric() or kind in (pl.Boolean, pl.Categorical, pl.Enum)


def _written(file: IO[bytes], values: Array) -> int:
    at = file.tell()
    np.ascontiguousarray(values).tofile(file)
    return at
