"""What is missing of a recording: records that a process says it has written and that its file does not hold, and files without the other.

A process notes every few seconds, and in the end, how many records it has written. One that is killed leaves all of them, and more, for
they are written to memory that the kernel keeps; and its file is longer than its records, since nobody gave back what was reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slowstep.health import Health, HealthKind
from slowstep.reasons import Wording
from slowstep.record.writing.storage import FLUSH_RECORDS
from slowstep.sources._recording.notes import NoteLines, health_name
from slowstep.sources._recording.records import WrittenRecords

# Why a recorder ended, as it says itself (record/recorder.py).
DISK_FULL = "disk full"
AGAIN = "record again, or bring back the whole folder"
MISSING_RECORDS = HealthKind(
    "missing-records",
    "data_loss",
    "the recording is damaged: {missing:,} of {written:count record}{share} {missing:plural is|are} missing, cut off or removed with their "
    f"file; {AGAIN}",
)
OF_ALL = Wording("of-all", " ({share:share})")
MISSING_LAUNCHER = HealthKind(
    "missing-launcher",
    "data_loss",
    f"the recording is damaged: launcher.jsonl and launcher.rec are gone; what was run, and what else ran, is unknown; {AGAIN}",
)
MISSING_PROCESSES = HealthKind(
    "missing-processes",
    "data_loss",
    f"the recording is damaged: the files of {{gone:,}} of {{said:count process|processes}} are gone; {AGAIN}",
)
MISSING_NOTES = HealthKind(
    "missing-notes",
    "data_loss",
    f"the recording is damaged: {{file}}.jsonl is gone or empty, without which {{file}}.rec says little; {AGAIN}",
)
EARLY_END = HealthKind(
    "early-end", "notice", "the recording ends early: the process was killed, or its file was cut; what came later is not looked at"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordCounts:
    """How many records of one process were written at least, by its notes, and how many of those its file does not hold.

    `is_open_end`: whether there may have been more, since nothing says that the file is as long as it was.
    """

    written: int
    missing: int
    is_open_end: bool

    @property
    def share(self) -> float:
        """Of what was written, what is there."""
        return 1 - self.missing / self.written if self.missing else 1.0


def kept_of(notes: NoteLines, written: WrittenRecords) -> RecordCounts:
    """What one process wrote against what there is of it."""
    said = notes.last("exit" if notes.role == "launcher" else "cost").get("records")
    expected = _by_events(notes, written) if said is None else int(said)
    missing = max((expected or 0) - written.slots, 0)
    is_whole = notes.ended or written.is_reserved
    if missing <= FLUSH_RECORDS and (not notes.ended or notes.last("end").get("reason") == DISK_FULL):
        # They stood in the process's own memory when it was killed, or the disk had no room for them.
        missing = 0
    if missing == 1 and written.is_reserved:
        # The end came while a thread had taken the last slot, and not yet filled it.
        missing = 0
    is_open_end = expected is not None and not missing and not is_whole
    return RecordCounts(written=max(expected or 0, written.slots), missing=missing, is_open_end=is_open_end)


def _by_events(notes: NoteLines, written: WrittenRecords) -> int | None:
    """The same from a recording that counts events only; None where some were only counted, or too few is known."""
    events = notes.last("cost").get("events")
    if events is None or written.counts_only:
        return None
    return int(events) - sum(int(row.get("count") or 1) for row in notes.of("health") if health_name(row) == "lost-events")


def missing_records(all_kept: Sequence[RecordCounts]) -> Iterable[Health]:
    """What all files together lack, as health."""
    missing, written = (sum(getattr(kept, name) for kept in all_kept) for name in ("missing", "written"))
    if missing:
        share = None if missing == written else OF_ALL(share=missing / written)
        yield MISSING_RECORDS(missing, missing=missing, written=written, share=share)


def missing_notes(folder: Path, launchers: Sequence[NoteLines]) -> Iterable[Health]:
    """Files of records whose notes are gone: nothing says what they are of, or what was run."""
    if not launchers and not (folder / "launcher.rec").exists():
        yield MISSING_LAUNCHER(1)
    said = sum(notes.last("exit").get("processes") or 0 for notes in launchers)
    there = sum(file.name != "launcher.jsonl" for file in folder.glob("*.jsonl"))
    if said > there:
        yield MISSING_PROCESSES(said - there, gone=said - there, said=said)
    lost = [file.stem for file in sorted(folder.glob("*.rec")) if not _has_content(file.with_suffix(".jsonl"))]
    if lost:
        yield MISSING_NOTES(len(lost), file=lost[0])


def _has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def early_ends(count: int) -> Iterable[Health]:
    """Recordings of so many trainings that stop without an end."""
    if count:
        yield EARLY_END(count)
