"""Known readers of the libraries themselves, where they are installed: the files, names and attributes by which they are known."""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowstep.record.timing.known_reads import ReadExtent, known_read

pytestmark = pytest.mark.slow
ROWS, WIDTH, CHUNK = 4096, 256, 1024


def extents(read: Callable[[], Any]) -> list[ReadExtent]:
    """What is told of each known call in it."""
    profiler = cProfile.Profile(builtins=False)
    profiler.enable()
    read()
    profiler.disable()
    known = {entry.code: reader for entry in profiler.getstats() if (reader := known_read(entry.code)) is not None}  # type: ignore[attr-defined]
    results: list[Any] = []

    def watch(frame: Any, event: str, argument: Any) -> None:
        reader = known.get(frame.f_code)
        if reader is not None and event == "call" and reader.of_call is not None:
            results.append(reader.of_call(frame))
        if reader is not None and event == "return" and reader.of_result is not None:
            results.append(reader.of_result(argument))

    sys.setprofile(watch)
    read()
    sys.setprofile(None)
    return [each for each in results if each is not None]


@pytest.mark.parametrize(("filters", "is_kept", "is_told"), [("gzip", False, True), (None, False, False), ("gzip", True, True)])
def test_chunks_of_hdf5(tmp_path: Path, filters: str | None, is_kept: bool, is_told: bool) -> None:
    h5py = pytest.importorskip("h5py")
    chunk = 64 if is_kept else CHUNK + 64
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("rows", data=np.zeros((ROWS, WIDTH), "float32"), chunks=(chunk, WIDTH), compression=filters)
    with h5py.File(tmp_path / "rows.h5", "r") as file:
        told = extents(lambda: file["rows"][5])

    assert len(told) == is_told
    if is_told:
        assert (told[0].chunk, told[0].inflated_bytes, told[0].used_bytes) == ((chunk, WIDTH), chunk * WIDTH * 4, WIDTH * 4)
        assert told[0].is_kept == is_kept


def test_chunks_of_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    rows = zarr.open(str(tmp_path / "rows.zarr"), mode="w", shape=(ROWS, WIDTH), chunks=(CHUNK, WIDTH), dtype="float32")
    rows[:] = 0

    (told,) = extents(lambda: rows[5])

    assert (told.chunk, told.inflated_bytes, told.used_bytes) == ((CHUNK, WIDTH), CHUNK * WIDTH * 4, WIDTH * 4)


def test_row_groups_of_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    parquet.write_table(pyarrow.table({"a": list(range(ROWS))}), tmp_path / "rows.parquet", row_group_size=CHUNK)
    file = parquet.ParquetFile(tmp_path / "rows.parquet")

    (told,) = extents(lambda: file.read_row_group(1))

    # With a bit for each row that tells whether it is there.
    assert (told.chunk, told.inflated_bytes) == ((CHUNK,), pytest.approx(CHUNK * 8, rel=0.05))
