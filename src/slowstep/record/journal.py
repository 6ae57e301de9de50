"""What the launcher itself writes into a recording: `launcher.jsonl` and `launcher.rec`."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from slowstep.record import format as contract


class Journal:
    """Notes and readings of the launcher. A full disk loses them, counted in `lost`, and stops nothing."""

    def __init__(self, folder: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._notes = os.open(os.path.join(folder, "launcher.jsonl"), flags, 0o600)
        self._records = os.open(os.path.join(folder, "launcher.rec"), flags, 0o600)
        self._torn = False
        self.lost = 0

    def note(self, kind: str, **fields: Any) -> None:
        """Append one JSON line."""
        line = json.dumps({"kind": kind, **fields}, ensure_ascii=True) + "\n"
        if not _append(self._notes, line.encode()):
            self.lost += 1

    def health(self, name: str, severity: str, remedy: str, count: int = 1) -> None:
        """Append one health note."""
        self.note("health", name=name, severity=severity, count=count, remedy=remedy)

    def reading(self, kind: int, at_ns: int, a: int, b: int, c: int) -> None:
        """Append one reading as a record."""
        record = contract.RECORD.pack(at_ns, at_ns, a, b, c, 0, 0, 0, kind)
        # Behind a record cut short all others would be misread.
        self._torn = self._torn or not _append(self._records, record)
        self.lost += self._torn

    def clock(self) -> None:
        """Append the pair of clocks, by which other machines' times are compared."""
        self.reading(contract.CLOCK, time.monotonic_ns(), time.time_ns(), 0, 0)

    def close(self) -> None:
        """Close both files."""
        os.close(self._notes)
        os.close(self._records)


def _append(handle: int, data: bytes) -> bool:
    try:
        return os.write(handle, data) == len(data)
    except OSError:
        return False
