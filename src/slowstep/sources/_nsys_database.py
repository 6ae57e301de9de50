"""Reads columns out of an SQLite file that may lack tables, columns, or its end."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl

CHUNK_ROWS = 1 << 16
# Stands for NULL while numbers travel as int64; no identifier or time of a trace has this value.
ABSENT = -(2**63)


class Database:
    """One file, open for reading. What cannot be read of a table is left out and the table's name goes into `damaged`."""

    def __init__(self, connection: sqlite3.Connection, tell: Callable[[int], None]) -> None:
        self._connection = connection
        self._tell = tell
        self.damaged: list[str] = []
        self.columns: dict[str, frozenset[str]] = {}
        for name in self._names():
            self.columns[name] = frozenset(self._column_names(name))

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there with all of these columns."""
        return table in self.columns and self.columns[table].issuperset(columns)

    def read(self, table: str, numbers: Mapping[str, str], texts: Mapping[str, str] | None = None, where: str = "1") -> pl.DataFrame:
        """Columns of a table, each under its new name: `numbers` as Int64, `texts` as String; null where value or column is absent.

        `where` is an SQL condition. What of the table cannot be read is missing.
        """
        texts = texts or {}
        schema = dict.fromkeys(numbers, pl.Int64) | dict.fromkeys(texts, pl.String)
        if table not in self.columns:
            return pl.DataFrame(schema=schema)
        chosen = [self._number(table, column) for column in numbers.values()] + [self._text(table, column) for column in texts.values()]
        # The names come from this package and not from the file; the file's own are only compared with them.
        query = f'SELECT {", ".join(chosen)} FROM "{table}" WHERE {where}'
        chunks = [_frame(rows, list(numbers), list(texts)) for rows in self._chunks(table, query)]
        return pl.concat(chunks) if chunks else pl.DataFrame(schema=schema)

    def totals(self, table: str, key: str, where: str = "1") -> dict[int, int]:
        """How many rows a table has for each value of an integer column; empty where either is absent."""
        if not self.has(table, key):
            return {}
        counts: dict[int, int] = {}
        query = f'SELECT CAST("{key}" AS INTEGER), count(*) FROM "{table}" WHERE "{key}" IS NOT NULL AND {where} GROUP BY 1'
        for rows in self._chunks(table, query, count=False):
            counts.update(rows)
        return counts

    def rows(self, table: str) -> int:
        """About how many rows a table has: exact where none were deleted, and quick."""
        if table not in self.columns:
            return 0
        try:
            found = self._connection.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()
        except sqlite3.Error:
            return 0
        return int(found[0] or 0)

    def pairs(self, table: str, key: str, value: str) -> dict[str, str]:
        """A table of names and values as a dictionary; empty where it is absent."""
        frame = self.read(table, {}, {"key": key, "value": value}) if self.has(table, key, value) else pl.DataFrame()
        return {k: v for k, v in frame.iter_rows() if k is not None and v is not None} if len(frame) else {}

    def _number(self, table: str, column: str) -> str:
        return f'coalesce(CAST("{column}" AS INTEGER), {ABSENT})' if column in self.columns[table] else str(ABSENT)

    def _text(self, table: str, column: str) -> str:
        return f'CAST("{column}" AS TEXT)' if column in self.columns[table] else "NULL"

    def _chunks(self, table: str, query: str, *, count: bool = True) -> Iterator[list[tuple[int, ...]]]:
        given = 0
        try:
            cursor = self._connection.execute(query)
            while rows := cursor.fetchmany(CHUNK_ROWS):
                if count:
                    self._tell(len(rows))
                given += len(rows)
                yield rows
        except sqlite3.Error:
            self.damaged.append(table)
            if rest := self._until_error(query, given):
                yield rest

    def _until_error(self, query: str, skipped: int) -> list[tuple[int, ...]]:
        """The rows before the first that cannot be read: asked for in bulk, they are lost with it."""
        rows: list[tuple[int, ...]] = []
        try:
            for number, row in enumerate(self._connection.execute(query)):
                if number >= skipped:
                    rows.append(row)
        except sqlite3.Error:
            pass
        return rows

    def _names(self) -> list[str]:
        rows = self._connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        return [name.decode("utf-8", "replace") for (name,) in rows if isinstance(name, bytes)]

    def _column_names(self, table: str) -> list[str]:
        try:
            rows = self._connection.execute(f'PRAGMA table_info("{table.replace(chr(34), chr(34) * 2)}")').fetchall()
        except sqlite3.Error:
            self.damaged.append(table)
            return []
        return [row[1].decode("utf-8", "replace") for row in rows]


@contextmanager
def opened(path: Path, tell: Callable[[int], None]) -> Iterator[Database]:
    """Open a file as it is: nothing is written, locked or made beside it. `tell` hears how many rows were read.

    Raises sqlite3.Error where it is no SQLite file or its list of tables cannot be read, and OSError where it cannot be opened.
    """
    with path.open("rb"):
        pass  # SQLite would only say that it is "unable to open"; this says why
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
    try:
        # Texts of a trace need not be valid UTF-8, which sqlite3 would answer with an error for the whole row.
        connection.text_factory = bytes
        # A file that was cut off is refused as a whole unless this is on; with it, all of its pages that exist can be read.
        connection.execute("PRAGMA writable_schema = ON")
        yield Database(connection, tell)
    finally:
        connection.close()


def _frame(rows: list[tuple[int, ...]], numbers: list[str], texts: list[str]) -> pl.DataFrame:
    columns = list(zip(*rows, strict=True))
    series = [pl.Series(name, np.array(values, dtype=np.int64)) for name, values in zip(numbers, columns, strict=False)]
    series = [values.set(values == ABSENT, None) for values in series]
    return pl.DataFrame([*series, *(_texts(name, values) for name, values in zip(texts, columns[len(numbers) :], strict=True))])


def _texts(name: str, values: tuple[object, ...]) -> pl.Series:
    series = pl.Series(name, values, dtype=pl.Binary)
    decoded = series.cast(pl.String, strict=False)
    if decoded.null_count() == series.null_count():
        return decoded
    return pl.Series(name, [v.decode("utf-8", "replace") if isinstance(v, bytes) else None for v in values], dtype=pl.String)
