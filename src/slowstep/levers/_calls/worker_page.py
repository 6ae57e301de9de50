"""How levers reach loader workers: orders in a page that every worker looks at before each batch, and what it did in a page of its own.

Workers are separate processes, forked before anybody knew of the lever, or not forked at all. They read a file of the recording's folder.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from dataclasses import asdict
from typing import Any, Final

from slowstep.record.experiment.lever import LeverSpec

ORDERS_FILE: Final = "worker-orders"
DONE_FILES: Final = "worker-done-"
# States of an order.
WATCH, ON, OFF, ENDED = "watch", "on", "off", "ended"

_BYTES: Final = 16 * mmap.PAGESIZE
_HEAD: Final = struct.Struct("<QQ")  # a number that grows with each change, and the length of the JSON text after it
_DONE: Final = struct.Struct("<QQQ")  # of one order: calls seen, calls replaced, number of the reason for refusing it (0 none)
_DONE_BYTES: Final = mmap.PAGESIZE


class Orders:
    """The training's side. Raises OSError where the folder takes no more files."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._page = _mapped(os.path.join(folder, ORDERS_FILE), _BYTES)
        self._orders: list[dict[str, Any]] = []
        self._generation = 0

    def add(self, spec: LeverSpec) -> int:
        """Give an order to watch a function; returns its number. Raises ValueError where there are too many."""
        number = len(self._orders)
        if (number + 1) * _DONE.size > _DONE_BYTES:
            raise ValueError("too many functions at a time for the loader's workers")
        self._orders.append({"spec": asdict(spec), "state": WATCH})
        self._write()
        return number

    def change(self, number: int, state: str) -> None:
        """Have it obeyed from each worker's next batch on."""
        if self._orders[number]["state"] != state:
            self._orders[number]["state"] = state
            self._write()

    def done(self, number: int) -> list[tuple[int, int, int]]:
        """What each worker has done of an order so far: calls seen, calls replaced, and the number of the reason for refusing it."""
        found = []
        for entry in os.scandir(self.folder):
            if entry.name.startswith(DONE_FILES):
                with open(entry.path, "rb") as file:
                    file.seek(number * _DONE.size)
                    found.append(_DONE.unpack(file.read(_DONE.size).ljust(_DONE.size, b"\0")))
        return found

    def _write(self) -> None:
        text = json.dumps(self._orders).encode()
        if _HEAD.size + len(text) > _BYTES:
            raise ValueError("too many functions at a time for the loader's workers")
        # A worker that reads meanwhile sees that the number has changed, and reads again before its next batch.
        self._generation += 1
        _HEAD.pack_into(self._page, 0, 0, 0)
        self._page[_HEAD.size : _HEAD.size + len(text)] = text
        _HEAD.pack_into(self._page, 0, self._generation, len(text))


class OrdersRead:
    """A worker's side of the orders."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, ORDERS_FILE)
        self._page: mmap.mmap | None = None
        self._generation = 0

    def changed(self) -> list[dict[str, Any]] | None:
        """The orders, where they have changed since the last look; None where they have not."""
        if self._page is None:
            if not os.path.exists(self._path):
                return None
            self._page = _mapped(self._path, _BYTES)
        generation, length = _HEAD.unpack_from(self._page, 0)
        if generation in (0, self._generation):
            return None
        text = self._page[_HEAD.size : _HEAD.size + length]
        if _HEAD.unpack_from(self._page, 0) != (generation, length):
            return None
        self._generation = generation
        orders: list[dict[str, Any]] = json.loads(text)
        return orders


class Done:
    """A worker's own page. Raises OSError where the folder takes no more files."""

    def __init__(self, folder: str) -> None:
        self._page = _mapped(os.path.join(folder, f"{DONE_FILES}{os.getpid()}"), _DONE_BYTES)

    def write(self, number: int, calls: int, replaced: int, reason: int) -> None:
        """Say how far an order has been obeyed."""
        _DONE.pack_into(self._page, number * _DONE.size, calls, replaced, reason)


def _mapped(path: str, size: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Written, not truncated to size: a page of a full disk would kill whoever touches it.
        if os.fstat(handle).st_size < size:
            os.write(handle, bytes(size))
        return mmap.mmap(handle, size)
    finally:
        os.close(handle)
