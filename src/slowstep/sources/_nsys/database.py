"""Reads columns out of an SQLite file that may lack tables, columns, or its end."""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, local
from typing import Final
from urllib.parse import quote

import polars as pl

from slowstep.sources._nsys.cells import FIELD, RECORD, Query, frame_of, number, text, without_separators

CHUNK_ROWS: Final = 1 << 15
# Rows of a table are numbered without large gaps. Where they are not, or not numbered at all, the table is one chunk.
MOST_CHUNKS: Final = 1 << 15
MOST_READERS: Final = 4


class Database:
    """One file, open for reading. What cannot be read of a table is left out and the table's name goes into `damaged`.

    `cut_off` says that the file is shorter than it says of itself.
    """

    def __init__(self, path: Path, tell: Callable[[int], None]) -> None:
        self._path, self._tell = path, tell
        self._own, self._opened, self._lock = local(), list[sqlite3.Connection](), Lock()
        self._most = min(MOST_READERS, os.cpu_count() or 1)
        self._readers = ThreadPoolExecutor(self._most)
        self.damaged: set[str] = set()
        self.cut_off = _is_cut_off(path)
        self.columns: dict[str, frozenset[str]] = {}
        for name in self._names():
            self.columns[name] = frozenset(self._column_names(name))

    def close(self) -> None:
        """Close the file."""
        self._readers.shutdown(cancel_futures=True)
        for connection in self._opened:
            connection.close()

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there with all of these columns."""
        return table in self.columns and self.columns[table].issuperset(columns)

    def read(self, table: str, numbers: Mapping[str, str], texts: Mapping[str, str] | None = None, where: str = "1") -> pl.DataFrame:
        """All that `pieces` gives, as one frame."""
        return pl.concat(self.pieces(table, numbers, texts, where))

    def pieces(
        self,
        table: str,
        numbers: Mapping[str, str],
        texts: Mapping[str, str] | None = None,
        where: str = "1",
        each: Callable[[pl.DataFrame], pl.DataFrame] | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Columns of a table, each under its new name: `numbers` as Int64, `texts` as String; null where value or column is absent.

        A column may also be a product of columns, "gridX * gridY". `where` is an SQL condition. What cannot be read is missing.
        Some rows at a time, at least one piece; `each` makes something smaller of them, on several cores.
        """
        texts = texts or {}
        wanted = {**{new: (old, pl.Int64) for new, old in numbers.items()}, **{new: (old, pl.String) for new, old in texts.items()}}
        there = {new: (old, kind) for new, (old, kind) in wanted.items() if self.has(table, *old.split(" * "))}
        each = each or _as_it_is
        if not there:
            yield each(pl.DataFrame(schema={new: kind for new, (_, kind) in wanted.items()}))
            return
        # A row of one unknown value would be an empty line, which no reader of lines can tell from none: hence the 0. It comes first, since
        # polars takes a text for compressed by its first bytes: an unknown value before a separator and \x8b would look like gzip.
        cells = ["'0'", *(text(old) if kind is pl.String else number(old) for old, kind in there.values())]
        row = f" || '{FIELD}' || ".join(cells)
        clean = f" || '{FIELD}' || ".join(without_separators(cell) for cell in cells)
        schema = {"": pl.Int8} | {new: kind for new, (_, kind) in there.items()}
        columns = [pl.col(new) if new in there else pl.lit(None, dtype=kind).alias(new) for new, (_, kind) in wanted.items()]
        yield from self._chunks(Query(table, row, clean, where, schema), lambda frame: each(frame.select(columns)))

    def totals(self, table: str, key: str) -> dict[int, int]:
        """How many rows a table has for each value of an integer column; empty where either is absent or unreadable."""
        if not self.has(table, key):
            return {}
        try:
            query = f'SELECT CAST("{key}" AS INTEGER), count(*) FROM "{table}" WHERE "{key}" IS NOT NULL GROUP BY 1'
            return dict(self._connection().execute(query).fetchall())
        except sqlite3.Error:
            self.damaged.add(table)
            counts = self.read(table, {"key": key}).drop_nulls().group_by("key").len()
            return dict(counts.iter_rows())

    def rows(self, table: str) -> int:
        """About how many rows a table has: exact where none were deleted, and quick."""
        if table not in self.columns:
            return 0
        first, last = self._bounds(table)
        return last - first + 1

    def pairs(self, table: str, key: str, value: str) -> dict[str, str]:
        """A table of names and values as a dictionary; empty where it is absent."""
        frame = self.read(table, {}, {"key": key, "value": value}).drop_nulls()
        return dict(frame.iter_rows())

    def _chunks(self, query: Query, each: Callable[[pl.DataFrame], pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The rows, some at a time, on several cores: SQLite makes one text of a chunk, for which Python is not needed."""
        first, last = self._bounds(query.table)
        starts = range(first, last + 1, CHUNK_ROWS) if last - first < CHUNK_ROWS * MOST_CHUNKS else range(0)
        if not starts:
            yield each(self._row_by_row(query, query.where))
            return
        # No more is read than is taken: otherwise all of a table might wait here.
        waiting: deque[Future[pl.DataFrame]] = deque()
        for start in starts:
            where = f"rowid >= {start} AND rowid < {start + CHUNK_ROWS} AND ({query.where})"
            waiting.append(self._readers.submit(lambda where: each(self._chunk(query, where)), where))
            if len(waiting) > self._most:
                yield self._counted(waiting.popleft())
        while waiting:
            yield self._counted(waiting.popleft())

    def _counted(self, piece: Future[pl.DataFrame]) -> pl.DataFrame:
        frame = piece.result()
        self._tell(CHUNK_ROWS)
        return frame

    def _chunk(self, query: Query, where: str) -> pl.DataFrame:
        try:
            joined = f"SELECT group_concat({query.row}, '{RECORD}'), count(*) FROM \"{query.table}\" WHERE {where}"
            lines, rows = self._connection().execute(joined).fetchone()
        except (sqlite3.Error, MemoryError):
            # Asked for in bulk, the rows before the first unreadable one are lost with it.
            return self._row_by_row(query, where)
        lines = lines or b""
        if rows and (lines.count(RECORD.encode()) != rows - 1 or lines.count(FIELD.encode()) != rows * (len(query.schema) - 1)):
            return self._row_by_row(query, where)
        return frame_of(lines, query)

    def _row_by_row(self, query: Query, where: str) -> pl.DataFrame:
        rows: list[bytes] = []
        try:
            for (row,) in self._connection().execute(f'SELECT {query.clean} FROM "{query.table}" WHERE {where}'):
                rows.append(row)
        except sqlite3.Error:
            self.damaged.add(query.table)
        return frame_of(RECORD.encode().join(rows), query)

    def _bounds(self, table: str) -> tuple[int, int]:
        """First and last number of a table's rows; (0, -1) where it has none, or does not number them."""
        try:
            first, last = (
                self._connection().execute(f'SELECT (SELECT min(rowid) FROM "{table}"), (SELECT max(rowid) FROM "{table}")').fetchone()
            )
        except sqlite3.Error:
            return 0, -1
        return (int(first), int(last)) if isinstance(first, int) and isinstance(last, int) else (0, -1)

    def _names(self) -> list[str]:
        rows = self._connection().execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        return [name.decode("utf-8", "replace") for (name,) in rows if isinstance(name, bytes)]

    def _column_names(self, table: str) -> list[str]:
        try:
            rows = self._connection().execute(f'PRAGMA table_info("{table.replace(chr(34), chr(34) * 2)}")').fetchall()
        except sqlite3.Error:
            self.damaged.add(table)
            return []
        return [row[1].decode("utf-8", "replace") for row in rows]

    def _connection(self) -> sqlite3.Connection:
        """The connection of this thread."""
        if not hasattr(self._own, "connection"):
            self._own.connection = _connected(self._path)
            with self._lock:
                self._opened.append(self._own.connection)
        connection: sqlite3.Connection = self._own.connection
        return connection


@contextmanager
def opened(path: Path, tell: Callable[[int], None]) -> Iterator[Database]:
    """Open a file as it is: nothing is written, locked or made beside it. `tell` hears about how many rows were read.

    Raises sqlite3.Error where it is no SQLite file or its list of tables cannot be read, and OSError where it cannot be opened.
    """
    database = Database(path, tell)
    try:
        yield database
    finally:
        database.close()


def _as_it_is(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    # Texts of a trace need not be valid UTF-8, which sqlite3 would answer with an error for the whole row.
    connection.text_factory = bytes
    # A file that was cut off is refused as a whole unless this is on; with it, all of its pages that exist can be read.
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _is_cut_off(path: Path) -> bool:
    """Whether pages are missing at the end (sqlite.org, "Database File Format": page size at byte 16, number of pages at byte 28)."""
    with path.open("rb") as file:
        head = file.read(32)
    page_bytes = int.from_bytes(head[16:18], "big")
    return path.stat().st_size < (65536 if page_bytes == 1 else page_bytes) * int.from_bytes(head[28:32], "big")
