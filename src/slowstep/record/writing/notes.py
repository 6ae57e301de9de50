"""Everything of a recorded process that has no fixed size: JSON lines, interned texts and health counters."""

from __future__ import annotations

import json
from typing import Any, Final

from slowstep.health import Health
from slowstep.reason_words import sentence
from slowstep.record.writing.storage import AppendFile

LIMIT_BYTES: Final = 64 * 1024 * 1024


def health_line(met: Health) -> dict[str, Any]:
    """The line of something lost or doubtful, in the words that are said of it."""
    return {"kind": "health", "name": met.name, "severity": met.severity, "count": met.count, "remedy": sentence(met.remedy)}


class NoteWriter:
    """The `.jsonl` of this process. `text_id` and `count` never write more than once for the same thing."""

    def __init__(self, path: str) -> None:
        self._file = AppendFile(path)
        self._texts: dict[str, int] = {}
        self._health: dict[str, dict[str, Any]] = {}
        self._left_bytes = LIMIT_BYTES

    def write(self, note: dict[str, Any]) -> None:
        """Append one line. Raises OSError where the disk is full or the folder is gone."""
        line = json.dumps(note, ensure_ascii=True, separators=(",", ":"), default=str).encode() + b"\n"
        self._left_bytes -= len(line)
        if self._left_bytes > 0 or note["kind"] in ("health", "cost", "end"):
            self._file.write(line)

    def text_id(self, text: str) -> int:
        """A number for a text; the first use writes it down."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts.setdefault(text, len(self._texts) + 1)
            self.write({"kind": "text", "id": known, "text": text})
        return known

    def count(self, met: Health) -> None:
        """Count something lost or doubtful. The first is written at once, later ones with the next flush: readers add lines up."""
        line = self._health.get(met.name)
        if line is None:
            first = health_line(met)
            self._health[met.name] = {**first, "count": 0}
            self.write(first)
        else:
            line["count"] += met.count

    def flush_health(self) -> None:
        """Write the counts since the last time."""
        for line in list(self._health.values()):
            if line["count"]:
                self.write(line)
                line["count"] = 0

    def last_words(self, note: dict[str, Any]) -> None:
        """Write a line although the disk may be full; a line cut short before it is ended first."""
        try:
            self._file.write(b"\n" + json.dumps(note).encode() + b"\n")
        except OSError:
            pass

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError:
            pass
