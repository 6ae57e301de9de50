"""Reads a recording folder, also one that is still being written or that a killed process left behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from slowstep.errors import UnreadableInput
from slowstep.health import Health
from slowstep.record.launching.folder import LAUNCHER_NOTES, is_recording
from slowstep.sources._recording.by_hand import stand_ins, without_doubtful
from slowstep.sources._recording.cells import name_cells
from slowstep.sources._recording.cut import FIRST, KEPT, find_cut, written_before
from slowstep.sources._recording.damage import RecordCounts, early_ends, kept_of, missing_notes, missing_records
from slowstep.sources._recording.facts import process_facts, run_facts
from slowstep.sources._recording.machine import machine_tables
from slowstep.sources._recording.notes import NoteLines, read_notes
from slowstep.sources._recording.process import process_tables
from slowstep.sources._recording.records import LATEST_NS, WrittenRecords, losses, read_records
from slowstep.sources._source import PLAIN, Reading, Source
from slowstep.timeline.coverage import UNSEEN, CoverageLevel, KindCoverage
from slowstep.timeline.schema import TABLE, TABLES
from slowstep.timeline.timeline import Timeline

LAUNCHER = LAUNCHER_NOTES
# No process is recorded for longer: what has a later time has been written by something else.
LONGEST_NS = 10 * 365 * 86400 * 10**9


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What one process wrote, the launcher among them."""

    notes: NoteLines
    written: WrittenRecords
    kept: RecordCounts


def sniff(head: bytes, path: Path) -> bool:
    """A recording is a folder that holds a launcher's notes or any process's records."""
    return path.is_dir() and is_recording(str(path))


def read(path: Path, how: Reading = PLAIN) -> Timeline:
    """Read a recording folder into a Timeline. Raises UnreadableInput where the folder holds no recording or cannot be read."""
    try:
        cut_ns = find_cut(path, read_notes(launcher) if (launcher := path / LAUNCHER).exists() else None)
        parts = [part for file in sorted(path.glob("*.jsonl")) if (part := _read_part(file, cut_ns)) is not None]
    except OSError as error:
        raise UnreadableInput(
            f"{path} cannot be read: {error.strerror or error}. Check that it exists and that you may read it."
        ) from error
    if not parts:
        raise UnreadableInput(f"{path} is not a recording: a folder made by `slowstep run` has .jsonl and .rec files in it.")
    parts.sort(key=lambda part: part.notes.started_ns)
    launchers = [part for part in parts if part.notes.role == "launcher"]
    recorded = [part for part in parts if part.notes.role != "launcher"]
    name_cells([part.notes for part in recorded], [part.notes for part in launchers])
    return Timeline(
        source="recording",
        tables=_tables(recorded, launchers),
        processes=tuple(process_facts(part.notes, part.written, part.kept) for part in recorded),
        run=run_facts(path.name, [part.notes for part in launchers], cut_ns),
        health=tuple(
            _merged(
                (
                    *_damage(path, parts, is_over=cut_ns is None and any(part.notes.ended for part in launchers)),
                    *(row for part in parts for row in (*part.notes.health, *losses(part.written.lost))),
                )
            )
        ),
    )


def _read_part(path: Path, cut_ns: int | None) -> _Part | None:
    """What one process wrote before an experiment began; None where it began to record after that."""
    notes = read_notes(path)
    written = read_records(
        path.with_suffix(".rec"), latest_ns=min(notes.started_ns + LONGEST_NS, LATEST_NS) if notes.started_ns else LATEST_NS
    )
    kept = kept_of(notes, written)
    if cut_ns is None:
        return _Part(notes=notes, written=written, kept=kept)
    notes = read_notes(path, until=FIRST, kept=KEPT)
    return None if notes.started_ns > cut_ns else _Part(notes=notes, written=written_before(cut_ns, written), kept=kept)


def _damage(folder: Path, parts: list[_Part], *, is_over: bool) -> Iterable[Health]:
    """What is missing of all parts, as health. `is_over`: whether the run has ended, and not by an experiment, which kills it."""
    yield from missing_records([part.kept for part in parts])
    yield from missing_notes(folder, [part.notes for part in parts if part.notes.role == "launcher"])
    if is_over:
        yield from early_ends(sum(part.kept.is_open_end for part in parts if part.notes.role == "trainer"))


def _tables(recorded: list[_Part], launchers: list[_Part]) -> dict[str, pl.DataFrame]:
    """Every table of a recording, the rows of its processes one below the other."""
    made = [process_tables(index, part.notes, part.written.records) for index, part in enumerate(recorded)]
    made += [machine_tables(part.notes, part.written.records) for part in launchers]
    frames = {table.name: [tables[table.name] for tables in made if table.name in tables] for table in TABLES}
    tables = {name: pl.concat(each) if each else TABLE[name].empty() for name, each in frames.items()}
    tables["updates"] = without_doubtful(tables["updates"], [stand_ins(part.notes) for part in recorded])
    return tables


def _merged(rows: Iterable[Health]) -> Iterable[Health]:
    """One row per name: counts of several processes are added, the first remedy stands."""
    found: dict[str, Health] = {}
    for row in rows:
        before = found.get(row.name)
        count = row.count + (before.count if before else 0)
        base = before or row
        found[row.name] = Health(name=base.name, severity=base.severity, count=count, remedy=base.remedy)
    return found.values()


COVERAGE: Final = {
    "steps": KindCoverage(CoverageLevel.EXACT),
    "host": KindCoverage(CoverageLevel.EXACT, "every step, in a long recording one in several"),
    "functions": KindCoverage(CoverageLevel.SAMPLED, "every step, in a long recording one in several"),
    "batches": KindCoverage(CoverageLevel.EXACT, "every step, in a long recording one in several"),
    "device": UNSEEN,
    "dispatches": UNSEEN,
    "allocations": UNSEEN,
    "machine": KindCoverage(CoverageLevel.SAMPLED),
}
SOURCE = Source(name="recording", reads="folders that `slowstep run` made", sniff=sniff, read=read, coverage=COVERAGE)
