"""What processes have read: by read calls, and of that from storage, as the kernel counts it."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from slowstep.record.system.kernel_files import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReads:
    """Cumulative bytes that read calls returned, and bytes that came from storage (page faults of mapped files too)."""

    called_bytes: int
    storage_bytes: int

    def since(self, earlier: DiskReads) -> DiskReads:
        """What came between two readings."""
        return DiskReads(called_bytes=self.called_bytes - earlier.called_bytes, storage_bytes=self.storage_bytes - earlier.storage_bytes)


def reads_of(paths: Iterable[str]) -> DiskReads | None:
    """The sum of several `io` files below /proc; None where one cannot be read."""
    called = storage = 0
    for path in paths:
        fields = dict(line.split(": ", 1) for line in (read_text(path) or "").splitlines() if ": " in line)
        if "rchar" not in fields or "read_bytes" not in fields:
            return None
        called, storage = called + int(fields["rchar"]), storage + int(fields["read_bytes"])
    return DiskReads(called_bytes=called, storage_bytes=storage)


def readers(iterator: Any) -> tuple[str, ...]:
    """The `io` files of those who read for an iterator: its workers, or the training thread."""
    workers = iterator.__dict__.get("_workers")
    if workers:
        return tuple(f"/proc/{worker.pid}/io" for worker in workers)
    return (f"/proc/self/task/{threading.get_native_id()}/io",)
