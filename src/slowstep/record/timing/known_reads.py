"""The calls of libraries that read more than they are asked for, or all there is, and what of it each call tells.

HDF5 and Zarr store an array in chunks, of which each that a selection touches is read and inflated whole. A row group of a Parquet file
is read whole whatever is then taken from it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from slowstep.record.timing.touched_chunks import touched

# HDF5's own, of each data set, where it does not say (up to version 1.14).
_CHUNKS_KEPT_BYTES: Final = 1 << 20
_COUNTERS: Final = "/proc/thread-self/io"


class ReadExtent(NamedTuple):
    """What one call reads: the chunk (of a table, its rows), what was selected of it, bytes read or inflated, and bytes asked for.

    `selected` and `used_bytes` are None of what is read whole. `is_kept`: the library may have kept it from a call before.
    """

    chunk: tuple[int, ...]
    selected: tuple[int, ...] | None
    inflated_bytes: int
    used_bytes: int | None
    is_kept: bool = False


class KnownRead(NamedTuple):
    """A function that reads: what tells of it when it is called, or else of what it gives."""

    library: str
    of_call: Callable[[FrameType], ReadExtent | None] | None
    of_result: Callable[[Any], ReadExtent | None] | None


def known_read(code: CodeType | str) -> KnownRead | None:
    """What is known of a function, by the end of its file and its name; None of all others."""
    if not isinstance(code, CodeType) or "-packages" not in code.co_filename:
        return None
    file = code.co_filename.replace(os.sep, "/")
    return next((read for ends, names, read in _KNOWN if code.co_qualname in names and file.endswith(ends)), None)


def bytes_read() -> tuple[int, int] | None:
    """Bytes that read calls have returned to this thread, and of these what this very reading takes; None where the kernel does not say."""
    try:
        with open(_COUNTERS, "rb", buffering=0) as file:
            text = file.read(512)
        return int(text.split(None, 2)[1]), len(text)
    except (OSError, ValueError, IndexError):
        return None


def _of_h5py(frame: FrameType) -> ReadExtent | None:
    array, selection = _given(frame)
    found = _of_chunks(array, selection, "h5py", _kept_by_h5py)
    # Of a chunk that is too large to be kept, and plain, HDF5 reads what is selected and no more.
    reads_selected = found is not None and not found.is_kept and not array.id.get_create_plist().get_nfilters()
    return None if reads_selected else found


def _of_zarr(frame: FrameType) -> ReadExtent | None:
    return _of_chunks(*_given(frame), "zarr", None)


def _given(frame: FrameType) -> tuple[Any, Any]:
    """An array and the selection: the first two parameters of the function that is called."""
    names, values = frame.f_code.co_varnames, frame.f_locals
    return values.get(names[0]), values.get(names[1])


def _of_chunks(array: Any, selection: Any, library: str, kept_bytes: Callable[[Any], int] | None) -> ReadExtent | None:
    # A class of the script's may compute what it is asked.
    if type(array).__module__.partition(".")[0] != library or (chunk := array.chunks) is None:
        return None
    found = touched(array.shape, chunk, selection)
    if found is None:
        return None
    item_bytes = int(array.dtype.itemsize)
    chunk_bytes = math.prod(chunk) * item_bytes
    return ReadExtent(
        chunk=tuple(map(int, chunk)),
        selected=found.lengths,
        inflated_bytes=found.chunks * chunk_bytes,
        used_bytes=math.prod(found.lengths) * item_bytes,
        is_kept=kept_bytes is not None and chunk_bytes <= kept_bytes(array),
    )


def _kept_by_h5py(array: Any) -> int:
    """The most bytes of a data set's chunks that HDF5 keeps inflated."""
    try:
        return int(array.id.get_access_plist().get_chunk_cache()[1])
    except Exception:  # an older h5py, or another driver: what HDF5 does by itself
        return _CHUNKS_KEPT_BYTES


def _of_table(result: Any) -> ReadExtent | None:
    if type(result).__module__.partition(".")[0] != "pyarrow":
        return None
    return ReadExtent(chunk=(int(result.num_rows),), selected=None, inflated_bytes=int(result.nbytes), used_bytes=None)


_TABLE: Final = KnownRead("pyarrow", None, _of_table)
# The ends of its file, the names of the functions in it, and what is known of them.
_KNOWN: Final[tuple[tuple[tuple[str, ...], tuple[str, ...], KnownRead], ...]] = (
    (("/h5py/_hl/dataset.py",), ("Dataset.__getitem__",), KnownRead("h5py", _of_h5py, None)),
    (("/zarr/core/array.py", "/zarr/core.py"), ("Array.__getitem__",), KnownRead("zarr", _of_zarr, None)),
    (
        ("/pyarrow/parquet/core.py",),
        ("ParquetFile.read_row_group", "ParquetFile.read_row_groups", "ParquetFile.read", "read_table"),
        _TABLE,
    ),
)
