"""Columns that grow chunk by chunk, in memory or, above a limit, as Parquet files of successive slices of the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[Any]


class Grown:
    """The rows of one table as they come: per column a list of arrays, or of one value for all rows of a chunk.

    `spill` moves what is in memory to a file; `column` gives a whole column back once, and frees it.
    """

    def __init__(self, name: str, types: Mapping[str, Any]) -> None:
        self.rows = 0
        self.held_bytes = 0
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
        self.rows += rows

    def spill(self, folder: Path) -> None:
        """Write what is in memory to a file in `folder`."""
        if not any(self._chunks.values()):
            return
        file = folder / f"{self._name}-{len(self._files)}.parquet"
        pl.DataFrame({name: self._joined(name) for name in self._types}).write_parquet(file, compression="lz4", statistics=False)
        self._files.append(file)
        self.held_bytes = 0

    def column(self, name: str) -> Array:
        """All values of a column, in the order of the file; it can be taken once."""
        parts = [pl.read_parquet(file, columns=[name])[name].to_numpy() for file in self._files]
        parts.append(self._joined(name))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _joined(self, name: str) -> Array:
        kind, chunks = self._types[name], self._chunks[name]
        self._chunks[name] = []
        whole = np.empty(sum(rows for _, rows in chunks), dtype=kind)
        at = 0
        for values, rows in chunks:
            whole[at : at + rows] = values
            at += rows
        return whole
