"""Stands for libraries that tests do not install: modules that look from outside like theirs, in a folder of packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

# Rows in chunks, of which the last one that was read is kept, as HDF5 does.
H5PY = """
import time
import numpy as np

class Identifier:
    filters = 1

    def get_create_plist(self):
        return self

    def get_nfilters(self):
        return self.filters

class Dataset:
    def __init__(self, path, rows, width, chunk):
        self.id = Identifier()
        self.path, self.shape, self.chunks, self.dtype = path, (rows, width), (chunk, width), np.dtype("float32")
        self.rows, self.width, self.kept = chunk, width, None

    def __getitem__(self, args):
        number = args // self.rows
        if self.kept is None or self.kept[0] != number:
            size = self.rows * self.width * 4
            with open(self.path, "rb") as file:
                file.seek(number * size)
                self.kept = number, np.frombuffer(file.read(size), dtype="float32").reshape(self.rows, self.width)
            until = time.thread_time() + 0.002
            while time.thread_time() < until:
                sum(range(1000))
        return self.kept[1][args % self.rows]
"""
PARQUET = """
import time

class Table:
    num_rows, nbytes = 1024, 266240

Table.__module__ = "pyarrow.lib"

class ParquetFile:
    def read_row_group(self, i):
        time.sleep(0.001)
        if i < 0:
            raise IndexError(i)
        return Table()
"""
MODULES = {"h5py": ("h5py/_hl/dataset.py", H5PY), "pyarrow": ("pyarrow/parquet/core.py", PARQUET)}


def packages(folder: Path, *names: str) -> Path:
    """A folder of packages that has these."""
    home = folder / "site-packages"
    for name in names:
        place, text = MODULES[name]
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text(text)
        for parent in Path(place).parents[:-1]:
            # Else one that is installed is found first.
            (home / parent / "__init__.py").touch()
    return home


def library(folder: Path, name: str) -> Any:
    """The module of one of them, which nobody else finds by its name."""
    place, _ = MODULES[name]
    path = packages(folder, name) / place
    spec = importlib.util.spec_from_file_location(place.removesuffix(".py").replace("/", "."), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_in_a_file(folder: Path, rows: int, width: int) -> Path:
    """A file of so many rows of 32-bit floats, all zeros."""
    path = folder / "rows.bin"
    path.write_bytes(bytes(rows * width * 4))
    return path
