"""Exports of Nsight Systems: tables, columns and values of the SQLite file changed, taken away or of other types, and its bytes damaged."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz.case import Target
from fuzz.odd import INT64, cut, scribbled, shown
from made_exports import call, copy, kernel, made_export, named, strings

REAL = Path(__file__).parents[1] / "data/nsys/h100_two_processes/trace.sqlite"
VALUES: tuple[Any, ...] = (None, *INT64, 0.5, -1.5, 1e300, float("inf"), "", "text", "12", "1e5", "\u202eevil", b"\xff\xfe", b"", "a\x00b")
# The first rows of each table: all of them are diagnosed in a second, these in a third of it.
MOST_ROWS = 400


@dataclass
class Document:
    """The file; `early` are changes by SQL, `late` those of its bytes."""

    raw: bytes
    early: list[Callable[[sqlite3.Connection], str | None]] = field(default_factory=list)
    late: list[Callable[[bytes], bytes]] = field(default_factory=list)


@cache
def _shortened() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "short.sqlite"
        path.write_bytes(REAL.read_bytes())
        with closing(sqlite3.connect(path)) as database:
            for table in _tables(database):
                if table not in ("StringIds", "TARGET_INFO_GPU"):
                    database.execute(f'DELETE FROM "{table}" WHERE rowid NOT IN (SELECT rowid FROM "{table}" LIMIT {MOST_ROWS})')
            database.commit()
            database.execute("VACUUM")
        return path.read_bytes()


@cache
def _made() -> bytes:
    """A training of six steps."""
    kernels, copies, calls, ranges = [], [], [], []
    names = strings("gemm", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "main thread", "step", "ncclDevKernel_AllReduce")
    for step in range(6):
        at = 1_000_000 * step + 1000
        ranges += [
            named(at, at + 950_000, f"step {step}"),
            named(at + 10, at + 200_000, "aten::linear, seq = 3, op_id = 7, sizes = [[8, 16]]"),
        ]
        calls += [
            call(at + 300, at + 900, correlationId=10 * step + 1),
            call(at + 1_000, at + 1_500, correlationId=10 * step + 2, nameId=3),
        ]
        kernels += [kernel(at + 2_000, at + 400_000, correlationId=10 * step + 1)]
        kernels += [kernel(at + 450_000, at + 600_000, correlationId=10 * step + 3, demangledName=6, streamId=9)]
        copies += [copy(at + 610_000, at + 700_000, correlationId=10 * step + 2)]
    tables = {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_MEMCPY": copies, "CUPTI_ACTIVITY_KIND_RUNTIME": calls}
    with tempfile.TemporaryDirectory() as folder:
        return made_export(Path(folder) / "made.sqlite", {"StringIds": names, **tables, "NVTX_EVENTS": ranges}).read_bytes()


def _opened(load: Callable[[], bytes]) -> Document:
    return Document(load())


def _tables(database: sqlite3.Connection) -> list[str]:
    return sorted(name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


def _column(database: sqlite3.Connection, rng: random.Random) -> tuple[str, str] | None:
    tables = _tables(database)
    table = rng.choice(tables) if tables else None
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')] if table else []
    return (table, rng.choice(columns)) if table and columns else None


def _drop_table(database: sqlite3.Connection, rng: random.Random) -> str | None:
    if (found := _column(database, rng)) is None:
        return None
    database.execute(f'DROP TABLE "{found[0]}"')
    return f"without table {found[0]}"


def _drop_column(database: sqlite3.Connection, rng: random.Random) -> str | None:
    if (found := _column(database, rng)) is None:
        return None
    database.execute('ALTER TABLE "{}" DROP COLUMN "{}"'.format(*found))
    return f"without column {'.'.join(found)}"


def _rename_column(database: sqlite3.Connection, rng: random.Random) -> str | None:
    found, other = _column(database, rng), _column(database, rng)
    if found is None or other is None:
        return None
    database.execute(f'ALTER TABLE "{found[0]}" RENAME COLUMN "{found[1]}" TO "{other[1]}"')
    return f"column {'.'.join(found)} is called {other[1]}"


def _rename_table(database: sqlite3.Connection, rng: random.Random) -> str | None:
    found, other = _column(database, rng), _column(database, rng)
    if found is None or other is None or found[0] == other[0]:
        return None
    database.execute(f'DROP TABLE "{other[0]}"')
    database.execute(f'ALTER TABLE "{found[0]}" RENAME TO "{other[0]}"')
    return f"table {found[0]} is called {other[0]}"


def _value(database: sqlite3.Connection, rng: random.Random) -> str | None:
    if (found := _column(database, rng)) is None:
        return None
    value, among = rng.choice(VALUES), rng.choice((1, 2, 10, 10**9))
    table, column = found
    which = f'rowid % {among} = 0 OR rowid = (SELECT min(rowid) FROM "{table}")' if among > 1 else "1"
    database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {which}', (value,))
    return f"{table}.{column} of one in {among} rows -> {shown(value)}"


def _exchanged(database: sqlite3.Connection, rng: random.Random) -> str | None:
    if (found := _column(database, rng)) is None:
        return None
    table, one = found
    other = rng.choice([row[1] for row in database.execute(f'PRAGMA table_info("{table}")')])
    database.execute(f'UPDATE "{table}" SET "{one}" = "{other}", "{other}" = "{one}"') if one != other else None
    return f"{table}: {one} and {other} exchanged"


def _rows_gone(database: sqlite3.Connection, rng: random.Random) -> str | None:
    if (found := _column(database, rng)) is None:
        return None
    which = rng.choice(("1", "rowid % 2 = 0", "rowid % 10 > 0", "rowid > 1", "rowid > 3"))
    database.execute(f'DELETE FROM "{found[0]}" WHERE {which}')
    return f"{found[0]} without rows {which}"


def _rows_twice(database: sqlite3.Connection, rng: random.Random) -> str | None:
    if (found := _column(database, rng)) is None:
        return None
    table = found[0]
    database.execute(f'CREATE TABLE copied AS SELECT * FROM "{table}"')
    database.execute(f'DROP TABLE "{table}"')
    database.execute(f'CREATE TABLE "{table}" AS SELECT * FROM copied UNION ALL SELECT * FROM copied')
    database.execute("DROP TABLE copied")
    return f"{table}: every row twice"


def _shifted(database: sqlite3.Connection, rng: random.Random) -> str | None:
    if (found := _column(database, rng)) is None:
        return None
    table, column = found
    by = rng.choice(("* -1", "+ 1000000000000000000", "* 0", "* 1000000", "- 4000000000000000000", "|| 'x'", "* 1.5"))
    database.execute(f'UPDATE "{table}" SET "{column}" = "{column}" {by}')
    return f"{table}.{column} {by}"


def _early(change: Callable[[sqlite3.Connection, random.Random], str | None], document: Document, rng: random.Random) -> str | None:
    """By SQL, at once: so that the next change sees what this one has left."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "changed.sqlite"
        path.write_bytes(document.raw)
        try:
            with closing(sqlite3.connect(path)) as database:
                said = change(database, rng)
                database.commit()
        except sqlite3.Error as error:
            # Such as the last column of a table, which cannot be dropped.
            return f"nothing: {error}"
        document.raw = path.read_bytes()
        return said


def _late(change: Callable[[bytes, random.Random], bytes], words: str, document: Document, rng: random.Random) -> str | None:
    seed = rng.randrange(2**32)
    document.late.append(lambda raw: change(raw, random.Random(seed)))
    return words


def _write(document: Document, folder: Path) -> Path:
    raw = document.raw
    for change in document.late:
        raw = change(raw)
    path = folder / "trace.sqlite"
    path.write_bytes(raw)
    return path


TARGET = Target(
    name="nsys",
    bases={"made": partial(_opened, _made), "h100_two_processes": partial(_opened, _shortened)},
    changes={
        "table-gone": partial(_early, _drop_table),
        "table-name": partial(_early, _rename_table),
        "column-gone": partial(_early, _drop_column),
        "column-name": partial(_early, _rename_column),
        "value": partial(_early, _value),
        "value-too": partial(_early, _value),
        "exchanged": partial(_early, _exchanged),
        "rows-gone": partial(_early, _rows_gone),
        "rows-twice": partial(_early, _rows_twice),
        "shifted": partial(_early, _shifted),
        "scribbled": partial(_late, scribbled, "bytes replaced"),
        "cut": partial(_late, cut, "cut off"),
    },
    write=_write,
)
