"""Tries what cannot be known beforehand: whether an overlay keeps what is below it, and how fast files are written."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from typing import Final

from slowstep.prove.sandbox.root import overlay

# One block is written so often, each time to a new file and on to the disk.
_WRITES: Final = 3
_BLOCK_BYTES: Final = 8 * 1024 * 1024


def check_overlay(layers: str, options: str) -> None:
    """Overlay a folder and change everything in it. Raises OSError where it shows what it should not, or the folder below changes.

    A file system without extended attributes, say, cannot remember that a folder was removed and made again.
    """
    place = os.path.join(layers, "trial")
    lower, upper, work, seen = (os.path.join(place, name) for name in ("lower", "upper", "work", "seen"))
    for folder in (os.path.join(lower, "folder"), upper, work, seen):
        os.makedirs(folder)
    for name in ("file", "folder/old"):
        _write(os.path.join(lower, name), b"old")
    overlay(lower, upper, work, seen, options)
    shutil.rmtree(os.path.join(seen, "folder"))
    os.mkdir(os.path.join(seen, "folder"))
    _write(os.path.join(seen, "new"), b"new")
    os.replace(os.path.join(seen, "new"), os.path.join(seen, "file"))
    kept = _read(os.path.join(lower, "file")) == b"old" and os.listdir(os.path.join(lower, "folder")) == ["old"]
    shown = _read(os.path.join(seen, "file")) == b"new" and os.listdir(os.path.join(seen, "folder")) == []
    if not (kept and shown):
        raise OSError("an overlay forgets what was removed in it" if kept else "an overlay does not hold back what is written")


def write_speed(folder: str) -> float:
    """How fast files are written in a folder, and brought to its disk: MB/s, the median of three. Raises OSError."""
    block = os.urandom(_BLOCK_BYTES)
    taken = []
    for number in range(_WRITES):
        path = os.path.join(folder, f".slowstep-{os.getpid()}-{number}")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            began_s = time.monotonic()
            os.write(handle, block)
            os.fsync(handle)
            taken.append(time.monotonic() - began_s)
        finally:
            os.close(handle)
            os.unlink(path)
    return _BLOCK_BYTES / 1e6 / max(statistics.median(taken), 1e-9)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
