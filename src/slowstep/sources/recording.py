"""Reads a recording folder, also one that is still being written or that a killed process left behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from slowstep.errors import UnreadableInput
from slowstep.health import Health
from slowstep.record.launching.folder import LAUNCHER_NOTES, is_recording
from slowstep.record.writing import format as fmt
from slowstep.sources._covered import covered_by_recording
from slowstep.sources._recording.by_hand import stand_ins, without_doubtful
from slowstep.sources._recording.cells import name_cells
from slowstep.sources._recording.cut import FIRST, KEPT, find_cut, written_before
from slowstep.sources._recording.damage import RecordCounts, early_ends, kept_of, missing_notes, missing_records
from slowstep.sources._recording.facts import process_facts
from slowstep.sources._recording.machine import machine_tables, sound_readings
from slowstep.sources._recording.notes import NoteLines, read_notes
from slowstep.sources._recording.process import outline_tables, process_tables
from slowstep.sources._recording.records import LATEST_NS, Lost, Records, WrittenRecords, losses, read_records
from slowstep.sources._recording.run import run_facts
from slowstep.sources._source import PLAIN, HowRead, Source
from slowstep.timeline.coverage import UNSEEN, CoverageLevel, CoveredSteps, KindCoverage, ShownWith
from slowstep.timeline.schema import RECORDING_TABLES, TABLE
from slowstep.timeline.timeline import ProcessFacts, Timeline

LAUNCHER = LAUNCHER_NOTES
# No process is recorded for longer: what has a later time has been written by something else.
LONGEST_NS = 10 * 365 * 86400 * 10**9
Tables = dict[str, pl.DataFrame]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """What one process wrote, the launcher among them, but for its records."""

    file: Path
    notes: NoteLines
    kept: RecordCounts
    lost: Lost


def sniff(head: bytes, path: Path) -> bool:
    """A recording is a folder that holds a launcher's notes or any process's records."""
    return path.is_dir() and is_recording(str(path))


def read(path: Path, how: HowRead = PLAIN) -> Timeline:
    """Read a recording folder into a Timeline. Raises UnreadableInput where the folder holds no recording or cannot be read."""
    return OpenRecording(path).timeline()


class OpenRecording:
    """A recording whose tables are made when they are asked for, of all its processes or of some, so that those of one rank are held at a
    time. Raises UnreadableInput where the folder holds no recording or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._open()
        except OSError as error:
            raise _unreadable(path, error) from error

    def timeline(self, *, without: Collection[int] = ()) -> Timeline:
        """What was recorded; of the processes `without`, by their index, only who they are and when they updated."""
        made = [outline if at in without else self._tables(at) for at, outline in enumerate(self._outlines)]
        tables = _joined([*made, *self._machine])
        tables["updates"] = self._updates
        processes = tuple(self._processes)
        coverage = covered_by_recording(COVERAGE, tables)
        return Timeline(source="recording", tables=tables, processes=processes, run=self._run, health=self._health, coverage=coverage)

    def outline(self) -> Timeline:
        """The same without the tables of any process."""
        return self.timeline(without=range(len(self._outlines)))

    def _open(self) -> None:
        path = self._path
        self._cut_ns = find_cut(path, read_notes(launcher) if (launcher := path / LAUNCHER).exists() else None)
        whole = {file: read_notes(file) for file in sorted(path.glob("*.jsonl"))}
        notes = {file: known for file, own in whole.items() if (known := _before(self._cut_ns, file, own)) is not None}
        if not notes:
            raise UnreadableInput(f"{path} is not a recording: a folder made by `slowstep run` has .jsonl and .rec files in it.")
        files = sorted(notes, key=lambda file: notes[file].started_ns)
        launchers = [notes[file] for file in files if notes[file].role == "launcher"]
        name_cells([notes[file] for file in files if notes[file].role != "launcher"], launchers)
        self._recorded: list[_Part] = []
        self._outlines: list[Tables] = []
        self._machine: list[Tables] = []
        self._records: dict[int, Records] = {}
        self._processes: list[ProcessFacts] = []
        parts = [self._take(file, notes[file], whole.pop(file)) for file in files]
        self._run = run_facts(path.name, launchers, self._cut_ns)
        self._updates = without_doubtful(
            pl.concat([TABLE["updates"].empty(), *(outline["updates"] for outline in self._outlines)]),
            [stand_ins(part.notes) for part in self._recorded],
        )
        is_over = self._cut_ns is None and any(launcher.ended for launcher in launchers)
        told = (row for part in parts for row in (*part.notes.health, *losses(part.lost)))
        self._health = tuple(_merged((*_damage(path, parts, is_over=is_over), *told)))

    def _take(self, file: Path, notes: NoteLines, whole: NoteLines) -> _Part:
        """Read one process, or the launcher's readings of the machine, and keep what is needed of it."""
        part, written = self._read(file, notes, whole)
        if part.notes.role == "launcher":
            self._machine.append(machine_tables(part.notes, written.records))
        else:
            self._processes.append(process_facts(part.notes, written, part.kept))
            self._add(part, written.records)
        return part

    def _read(self, file: Path, notes: NoteLines, whole: NoteLines) -> tuple[_Part, WrittenRecords]:
        """One process and the records that it wrote until the cut; of a launcher's readings those that can be. `whole` are its notes beyond
        the cut too.
        """
        everything = _written(file, notes)
        written = _until(self._cut_ns, everything)
        sound = replace(written, records=sound_readings(written.records)) if notes.role == "launcher" else written
        lost = replace(written.lost, malformed=written.lost.malformed + len(written.records) - len(sound.records))
        kept = kept_of(whole, everything)
        if kept.missing:
            # Where the file was cut, or moved together, that went through a record.
            lost = Lost(torn=0, malformed=lost.malformed + lost.torn)
        return _Part(file=file, notes=notes, kept=kept, lost=lost), sound

    def _add(self, part: _Part, records: Records) -> None:
        """Take one more process. The records of a lone training are kept until its tables are made; those of several are read again."""
        at = len(self._recorded)
        self._recorded.append(part)
        self._outlines.append(outline_tables(at, part.notes, records[records["kind"] == fmt.UPDATE]))
        if sum(not outline["updates"].is_empty() for outline in self._outlines) < 2:
            self._records[at] = records
        else:
            self._records.clear()

    def _tables(self, at: int) -> Tables:
        part = self._recorded[at]
        records = self._records.pop(at, None)
        if records is None:
            try:
                records = _until(self._cut_ns, _written(part.file, part.notes)).records
            except OSError as error:
                raise _unreadable(self._path, error) from error
        return process_tables(at, part.notes, records)


def _unreadable(path: Path, error: OSError) -> UnreadableInput:
    return UnreadableInput(f"{path} cannot be read: {error.strerror or error}. Check that it exists and that you may read it.")


def _before(cut_ns: int | None, file: Path, whole: NoteLines) -> NoteLines | None:
    """What one process noted before an experiment began; None where it began to record after that."""
    if cut_ns is None:
        return whole
    notes = read_notes(file, until=FIRST, kept=KEPT)
    return None if notes.started_ns > cut_ns else notes


def _written(file: Path, notes: NoteLines) -> WrittenRecords:
    latest_ns = min(notes.started_ns + LONGEST_NS, LATEST_NS) if notes.started_ns else LATEST_NS
    return read_records(file.with_suffix(".rec"), latest_ns=latest_ns)


def _until(cut_ns: int | None, written: WrittenRecords) -> WrittenRecords:
    return written if cut_ns is None else written_before(cut_ns, written)


def _damage(folder: Path, parts: list[_Part], *, is_over: bool) -> Iterable[Health]:
    """What is missing of all parts, as health. `is_over`: whether the run has ended, and not by an experiment, which kills it."""
    yield from missing_records([part.kept for part in parts])
    yield from missing_notes(folder, [part.notes for part in parts if part.notes.role == "launcher"])
    if is_over:
        yield from early_ends(sum(part.kept.is_open_end for part in parts if part.notes.role == "trainer"))


def _joined(made: list[Tables]) -> Tables:
    """Every table, the rows of all processes one below the other."""
    frames = {table.name: [tables[table.name] for tables in made if table.name in tables] for table in RECORDING_TABLES}
    return {name: pl.concat(each) if each else TABLE[name].empty() for name, each in frames.items()}


def _merged(rows: Iterable[Health]) -> Iterable[Health]:
    """One row per name: counts of several processes are added, the first remedy stands."""
    found: dict[str, Health] = {}
    for row in rows:
        before = found.get(row.name)
        count = row.count + (before.count if before else 0)
        base = before or row
        found[row.name] = replace(base, count=count)
    return found.values()


COVERAGE: Final = {
    "steps": KindCoverage(CoverageLevel.EXACT),
    "host": KindCoverage(CoverageLevel.EXACT, CoveredSteps.ONE_IN_SEVERAL),
    "functions": KindCoverage(CoverageLevel.SAMPLED, CoveredSteps.ONE_IN_SEVERAL),
    "batches": KindCoverage(CoverageLevel.EXACT, CoveredSteps.ONE_IN_SEVERAL),
    "device": KindCoverage(CoverageLevel.SAMPLED, CoveredSteps.ONE_IN_SEVERAL, shown_with=ShownWith.ASKED_DEVICE),
    "dispatches": UNSEEN,
    "allocations": UNSEEN,
    "machine": KindCoverage(CoverageLevel.SAMPLED),
}
SOURCE = Source(name="recording", reads="folders that `slowstep run` made", sniff=sniff, read=read, coverage=COVERAGE)
