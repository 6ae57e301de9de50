"""Columns that grow chunk by chunk, in memory or, above a limit, as Parquet files of successive slices of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TablePart:
    """Rows of a table that another process has read: the files they are in, and of which turns they are, (turn, rows) in their order."""

    files: tuple[Path, ...]
    turns: tuple[tuple[int, int], ...]


class Grown:
    """The rows of one table as they come: per column a list of arrays, or of one value for all rows of a chunk.

    `spill` moves what is in memory to a file; `column` gives a whole column back once, and frees it. Rows of other processes stand between
    this one's where they stand in the file: by their turns, the numbers of the chunks they are from.
    """

    def __init__(self, name: str, types: Mapping[str, Any]) -> None:
        self.rows = 0
        self.held_bytes = 0
        self.turn = 0
        self._turns: list[tuple[int, int]] = []
        self._parts: list[tuple[TablePart, Mapping[str, Array]]] = []
        self._name = name
        self._types = {column: np.dtype(kind) for column, kind in types.items()}
        self._chunks: dict[str, list[tuple[Any, int]]] = {column: [] for column in types}
        self._files: list[Path] = []

    def add(self, rows: int, columns: Mapping[str, Any]) -> None:
        """Append rows. Every declared column is given, as an array of that length or as one value."""
        for name, kind in self._types.items():
            values = columns[name]
            if isinstance(values, np.ndarray):
                values = values.astype(kind, copy=False)
                self.held_bytes += values.nbytes
            self._chunks[name].append((values, rows))
        self._turns.append((self.turn, rows))
        self.rows += rows

    def spill(self, folder: Path) -> None:
        """Write what is in memory to a file in `folder`."""
        if not any(self._chunks.values()):
            return
        file = folder / f"{self._name}-{len(self._files)}.parquet"
        pl.DataFrame({name: self._joined(name) for name in self._types}).write_parquet(file, compression="lz4", statistics=False)
        self._files.append(file)
        self.held_bytes = 0

    def part(self, folder: Path) -> TablePart:
        """All rows, in files in `folder`, for another process."""
        self.spill(folder)
        return TablePart(tuple(self._files), tuple(self._turns))

    def join(self, part: TablePart, codes: Mapping[str, Array]) -> None:
        """Take rows of another process; `codes` gives per column of codes what each of that process is called in this one."""
        self._parts.append((part, codes))
        self.rows += sum(rows for _, rows in part.turns)

    def column(self, name: str) -> Array:
        """All values of a column, in the order of the file; it can be taken once."""
        own = _of_files(self._files, name)
        own.append(self._joined(name))
        if not self._parts:
            return _whole(own)
        pieces = _pieces(_whole(own), self._turns)
        for part, codes in self._parts:
            values = _whole(_of_files(part.files, name) or [np.empty(0, self._types[name])])
            pieces += _pieces(_renamed(values, codes[name]) if name in codes else values, part.turns)
        pieces.sort(key=itemgetter(0))
        return np.concatenate([values for _, values in pieces] or [np.empty(0, self._types[name])])

    def _joined(self, name: str) -> Array:
        kind, chunks = self._types[name], self._chunks[name]
        self._chunks[name] = []
        whole = np.empty(sum(rows for _, rows in chunks), dtype=kind)
        at = 0
        for values, rows in chunks:
            whole[at : at + rows] = values
            at += rows
        return whole


def _of_files(files: Sequence[Path], name: str) -> list[Array]:
    return [pl.read_parquet(file, columns=[name])[name].to_numpy() for file in files]


def _whole(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _pieces(values: Array, turns: Sequence[tuple[int, int]]) -> list[tuple[int, Array]]:
    """The values of each turn, in the order in which they came."""
    ends = np.cumsum([rows for _, rows in turns], dtype=np.int64).tolist()
    return [(turn, values[end - rows : end]) for (turn, rows), end in zip(turns, ends, strict=True)]


def _renamed(values: Array, codes: Array) -> Array:
    """Codes of one dictionary as those of another; below 0 is none."""
    none = values < 0
    return np.where(none, values, codes[np.where(none, 0, values)]) if len(codes) else values
