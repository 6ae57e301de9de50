"""The notes of a recorded process: what its .jsonl file says, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slowstep.harmless import without_surrogates
from slowstep.health import SEVERITIES, Health, HealthKind, Severity
from slowstep.record.writing.format import FORMAT_VERSION
from slowstep.record.writing.health_kinds import DISK_FULL, LAUNCHER_RECORDS_LOST
from slowstep.sources._recording.fit import NoteLine, fits

NEWER_FORMAT = HealthKind(
    "newer-format", "error", "written by a newer slowstep (format {version}, this one reads {known}): upgrade slowstep"
)
TORN_NOTES = HealthKind("torn-notes", "notice", "lines that a process did not finish writing")
MALFORMED_NOTES = HealthKind(
    "malformed-notes",
    "data_loss",
    "the recording is damaged: lines of it make no sense, another program has written into the file; record again",
)
NOT_RECORDED = HealthKind("not-recorded", "notice", "{reason}; what it would show is missing")
# What a recorder said itself.
AS_WRITTEN = HealthKind("unnamed", "notice", "{text}")
# Names of health that say that the disk was full.
_DISK_FULL: Final = (DISK_FULL.name, LAUNCHER_RECORDS_LOST.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class NoteLines:
    """All lines of one file, by kind."""

    lines: dict[str, list[NoteLine]]
    texts: dict[int, str]
    places: dict[int, tuple[str, int]]  # file and line of what some of the texts name
    health: tuple[Health, ...]

    def of(self, kind: str) -> list[NoteLine]:
        """The lines of a kind, in order."""
        return self.lines.get(kind, [])

    def last(self, kind: str) -> NoteLine:
        """The last line of a kind; empty where there is none."""
        return self.of(kind)[-1] if self.of(kind) else {}

    def timed_calls(self) -> list[NoteLine]:
        """The last line of each kind of timed calls: times add up over the stretches.

        Those of requests that no loader's hook looks into stand for what makes batches where no such hook has looked.
        """
        found = {note["of"]: note for note in self.of("calls")}
        requests = found.pop("request", None)
        if requests is not None:
            found.setdefault("fetch", {**requests, "of": "fetch"})
        return list(found.values())

    @property
    def process(self) -> NoteLine:
        """What the process said of itself; a later line completes an earlier one (a trainer that turns out to be a worker)."""
        return {key: value for line in self.of("process") for key, value in line.items() if value is not None}

    @property
    def role(self) -> str:
        """trainer, worker or launcher."""
        return str(self.process.get("role", "trainer"))

    @property
    def pid(self) -> int:
        """Process id; -1 where the first line is lost."""
        return int(self.process.get("pid", -1))

    @property
    def started_ns(self) -> int:
        """When recording began in it; 0 where the first line is lost."""
        return int(self.process.get("started_ns", 0))

    @property
    def malformed(self) -> int:
        """Lines that make no sense, which others have written over."""
        return sum(row.count for row in self.health if row.name == MALFORMED_NOTES.name)

    @property
    def ended(self) -> bool:
        """Whether it closed its recording itself."""
        return bool(self.of("end") or self.of("exit"))


def read_notes(path: Path, *, until: tuple[str, ...] = (), kept: tuple[str, ...] = ()) -> NoteLines:
    """Read a .jsonl file; lines that are torn or malformed are counted, not raised. Raises OSError where it cannot be read.

    From the first line of a kind in `until` on, only lines of the kinds that are `kept` are read.
    """
    lines: dict[str, list[NoteLine]] = {}
    bad, is_over = 0, False
    raws = path.read_bytes().split(b"\n")
    for raw in raws:
        note = _parsed(raw)
        if note is not None and fits(note):
            is_over = is_over or note.get("kind") in until
            if not is_over or note.get("kind") in kept:
                lines.setdefault(str(note.get("kind")), []).append(note)
        elif raw.strip(b"\0 \r") and not is_over:
            bad += 1
    health = [_health(row) for row in lines.get("health", [])]
    health += _bad_lines(bad, is_torn=bool(raws[-1].strip(b"\0 \r")), is_full=any(row.name in _DISK_FULL for row in health))
    version = max((int(note.get("format", FORMAT_VERSION)) for note in lines.get("process", [])), default=FORMAT_VERSION)
    if version > FORMAT_VERSION:
        health.append(NEWER_FORMAT(1, version=version, known=FORMAT_VERSION))
    health += [_hook_off(row) for row in lines.get("hook", []) if row.get("state") == "off"]
    texts = {int(row["id"]): str(row["text"]) for row in lines.get("text", [])}
    places = {int(row["text"]): (str(row["file"]), int(row["line"])) for row in lines.get("place", [])}
    return NoteLines(lines=lines, texts=texts, places=places, health=tuple(health))


def _bad_lines(bad: int, *, is_torn: bool, is_full: bool) -> Iterator[Health]:
    """Lines that cannot be read: the last one of a killed process, those that a full disk cut short, or what others have written."""
    if bad and (is_full or (is_torn and bad == 1)):
        yield TORN_NOTES(bad)
    elif bad:
        yield MALFORMED_NOTES(bad)


def _parsed(raw: bytes) -> NoteLine | None:
    try:
        note = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    # As the recorder writes what Python makes of names that are not UTF-8.
    if b"\\ud" in raw:
        note = _as_text(note)
    # What is null is not known, as if it were not there.
    return {key: value for key, value in note.items() if value is not None} if isinstance(note, dict) else None


def _as_text(note: Any) -> Any:
    """A note without surrogates but in the run's command: that is to be typed again, with all of its bytes."""
    text = without_surrogates(note)
    return {**text, "command": note["command"]} if isinstance(note, dict) and note.get("kind") == "run" and "command" in note else text


def _health(row: NoteLine) -> Health:
    severity: Severity = row["severity"] if row.get("severity") in SEVERITIES else "notice"
    # In older recordings names are written with underscores.
    name = str(row.get("name") or AS_WRITTEN.name).replace("_", "-")
    return replace(AS_WRITTEN, name=name, severity=severity)(max(int(row.get("count") or 1), 1), text=str(row.get("remedy", "")))


def _hook_off(row: NoteLine) -> Health:
    reason = str(row.get("reason") or "it does not fit the installed version")
    return NOT_RECORDED.of(str(row.get("name")).replace("_", "-"))(1, reason=reason)
