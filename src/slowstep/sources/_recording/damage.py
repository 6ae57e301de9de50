"""What is missing of a recording: records that a process says it has written and that its file does not hold, and files without the other.

A process notes every few seconds, and in the end, how many records it has written. One that is killed leaves all of them, and more, for
they are written to memory that the kernel keeps; and its file is longer than its records, since nobody gave back what was reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slowstep.health import Health
from slowstep.record.storage import FLUSH_RECORDS
from slowstep.sources._recording.notes import Notes
from slowstep.sources._recording.records import Written
from slowstep.units import format_count, format_number, format_share

# Of damage, and not of a disk that was full: the names under which health has it.
MISSING = "missing-records"
NO_NOTES = "missing-notes"
EARLY_END = "early-end"
AGAIN = "record again, or bring back the whole folder"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
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


def kept_of(notes: Notes, written: Written) -> Kept:
    """What one process wrote against what there is of it."""
    said = notes.last("exit" if notes.role == "launcher" else "cost").get("records")
    expected = _by_events(notes, written) if said is None else int(said)
    missing = max((expected or 0) - written.slots, 0)
    is_whole = notes.ended or written.is_reserved
    if missing <= FLUSH_RECORDS and not notes.ended:
        # They stood in the process's own memory when it was killed.
        missing = 0
    is_open_end = expected is not None and not missing and not is_whole
    return Kept(written=max(expected or 0, written.slots), missing=missing, is_open_end=is_open_end)


def _by_events(notes: Notes, written: Written) -> int | None:
    """The same from a recording that counts events only; None where some were only counted, or too few is known."""
    events = notes.last("cost").get("events")
    if events is None or written.counts_only:
        return None
    return int(events) - sum(int(row.get("count") or 1) for row in notes.of("health") if row.get("name") == "lost_events")


def missing_records(all_kept: Sequence[Kept]) -> Iterable[Health]:
    """What all files together lack, as health."""
    missing, written = (sum(getattr(kept, name) for kept in all_kept) for name in ("missing", "written"))
    if missing:
        # Half of it, and never all but nothing.
        share = "all" if missing == written else format_share(missing / written)
        lost = f"{format_count(missing, 'record')} of {format_number(written)} ({share})"
        remedy = f"the recording is damaged: of {lost} nothing is there, their files were cut, emptied or removed; {AGAIN}"
        yield Health(name=MISSING, severity="data_loss", count=missing, remedy=remedy)


def missing_notes(folder: Path) -> Iterable[Health]:
    """Files of records whose notes are gone: nothing says what they are of."""
    orphans = [file for file in folder.glob("*.rec") if not file.with_suffix(".jsonl").exists()]
    if orphans:
        remedy = f"the recording is damaged: {orphans[0].stem}.jsonl is gone, without which {orphans[0].name} cannot be read; {AGAIN}"
        yield Health(name=NO_NOTES, severity="data_loss", count=len(orphans), remedy=remedy)


def early_ends(count: int) -> Iterable[Health]:
    """Recordings of so many trainings that stop without an end."""
    if count:
        remedy = "the recording ends early: the process was killed, or its file was cut; what came later is not looked at"
        yield Health(name=EARLY_END, severity="notice", count=count, remedy=remedy)
