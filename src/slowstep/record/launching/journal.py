"""What the launcher itself writes into a recording: `launcher.jsonl` and `launcher.rec`."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

from slowstep.record.writing import format as contract
from slowstep.record.writing.notes import health_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slowstep.health import HealthKind
    from slowstep.reasons import Value
    from slowstep.record.monitors import Reading


class Journal:
    """Notes and readings of the launcher. A full disk loses them, counted in `lost`, and stops nothing. `records` are what it wrote."""

    def __init__(self, folder: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._notes = os.open(os.path.join(folder, "launcher.jsonl"), flags, 0o600)
        self._records = os.open(os.path.join(folder, "launcher.rec"), flags, 0o600)
        self._folder, self._torn = folder, False
        self.lost = self.records = 0

    def note(self, kind: str, **fields: Any) -> None:
        """Append one JSON line."""
        line = json.dumps({"kind": kind, **fields}, ensure_ascii=True) + "\n"
        if not _append(self._notes, line.encode()):
            self.lost += 1

    def health(self, kind: HealthKind, count: int = 1, **values: Value) -> None:
        """Append one health note; `values` are those that the kind's template names."""
        self.note(**health_line(kind(count, **values)))

    def readings(self, at_ns: int, taken: Sequence[Reading]) -> None:
        """Append the readings of a moment as records, with one write."""
        records = b"".join(contract.RECORD.pack(at_ns, at_ns, a, b, c, index, 0, 0, kind) for kind, a, b, c, index in taken)
        # Behind a record cut short all others would be misread.
        self._torn = self._torn or not _append(self._records, records)
        self.lost += len(taken) if self._torn else 0
        self.records += 0 if self._torn else len(taken)

    def clock(self) -> None:
        """Append the pair of clocks, by which other machines' times are compared."""
        self.readings(time.monotonic_ns(), [(contract.CLOCK, time.time_ns(), 0, 0, 0)])

    @property
    def written(self) -> dict[str, int]:
        """How much there is of the recording when it ends, by which later losses are known: readings, and processes with notes."""
        try:
            notes = [name for name in os.listdir(self._folder) if name.endswith(".jsonl") and name != "launcher.jsonl"]
        except OSError:  # the script has removed the folder: there is nobody left to tell
            return {"records": self.records}
        return {"records": self.records, "processes": len(notes)}

    def close(self) -> None:
        """Close both files."""
        notes, records = self._notes, self._records
        # Another file may get their numbers.
        self._notes = self._records = -1
        os.close(notes)
        os.close(records)


def _append(handle: int, data: bytes) -> bool:
    try:
        return os.write(handle, data) == len(data)
    except OSError:
        return False
