"""The recordings that were made here: which there are, which is the last, and what their reports say."""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slowstep.errors import NoRecording
from slowstep.record.launching.folder import DEFAULT_PARENT, LAUNCHER_NOTES, holds_nothing, is_recording
from slowstep.record.system import processes
from slowstep.record.system.facts import boot_id
from slowstep.record.writing import format as contract
from slowstep.report.json import REPORT_FILE

SCHEMA: Final = "slowstep/runs/1"
# The launcher's first two lines are all that is wanted of its notes.
_HEAD_BYTES: Final = 64 << 10
# The kernel tells when a process started to a hundredth of a second, by a clock that may have been set since.
_CLOCK_S: Final = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """One recording; None is unknown. `bench` is the half of its training that was measured alone (None: neither was).

    `state` is `reported`, `recording` (it goes on), or `unreported`: there is no report.json.
    """

    folder: Path
    command: tuple[str, ...]
    started: str | None
    state: str
    steps: float | None
    samples_per_s: float | None
    steps_per_s: float | None
    verdict: str | None
    rule: str | None
    gain: float | None
    bench: str | None
    size_bytes: int

    @property
    def name(self) -> str:
        """The folder's name, of the current one too."""
        return self.folder.name or self.folder.resolve().name


def runs_in(folder: Path) -> list[Path]:
    """The recordings right below a folder, and those of jobs with several launchers one level deeper; the oldest first.

    A folder in which nothing was recorded is no run. What may not be looked into is passed over.
    """
    found = [below for below in _folders(folder) if _is_run(below)]
    jobs = [below for below in _folders(folder) if below not in found]
    found += [one for job in jobs for one in _folders(job) if _is_run(one)]
    return sorted(found, key=_began)


def runs_here(folder: Path) -> list[Path]:
    """The recordings that belong to a folder: below its slowstep_runs, else right below it; the folder alone where it is one."""
    if _is_run(folder):
        return [folder]
    return runs_in(folder / DEFAULT_PARENT) or runs_in(folder)


def last_run(folder: Path) -> Path:
    """The recording that was begun last. Raises NoRecording, which says how to make one, where there is none."""
    runs = runs_here(folder)
    if not runs:
        where = "here" if folder == Path() else f"in {folder}"
        raise NoRecording(
            f"there is no recording {where} (no folder {DEFAULT_PARENT} with one in it). Make one: slowstep run train.py. "
            "Or give the path of a recording or of a profiler's trace: slowstep analyze PATH"
        )
    return runs[-1]


def row_of(folder: Path) -> RunRow:
    """What a recording's notes and its report.json say of it; whatever cannot be read is unknown."""
    notes, report = _first_notes(folder), _report(folder)
    words = notes.get("run", {}).get("command")
    run, throughput, verdict = (_dict(report.get(name)) for name in ("run", "throughput", "verdict"))
    return RunRow(
        folder=folder,
        command=tuple(map(str, words)) if isinstance(words, list) else (),
        started=_text(notes.get("run", {}).get("started")),
        state="reported" if report else "recording" if is_going_on(folder) else "unreported",
        steps=_number(run.get("recorded_steps") or run.get("steps")),
        samples_per_s=_number(throughput.get("samples_per_s")),
        steps_per_s=_number(throughput.get("steps_per_s")),
        verdict=_text(verdict.get("state")),
        rule=_text(verdict.get("rule")),
        gain=_gain(report),
        bench=_text(_dict(report.get("bench")).get("half")),
        size_bytes=_size_bytes(folder),
    )


def runs_document(folder: Path, rows: Iterable[RunRow]) -> dict[str, Any]:
    """The list for machines, the newest first."""
    listed = [
        {
            "name": row.name,
            "path": str(row.folder.absolute()),
            "command": list(row.command),
            "started": row.started,
            "state": row.state,
            "steps": row.steps,
            "samples_per_s": row.samples_per_s,
            "steps_per_s": row.steps_per_s,
            "verdict": row.verdict,
            "rule": row.rule,
            "gain": row.gain,
            "bench": row.bench,
            "size_bytes": row.size_bytes,
        }
        for row in rows
    ]
    return {"schema": SCHEMA, "folder": str(folder.absolute()), "runs": listed}


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []


def is_recording_folder(folder: Path) -> bool:
    """Whether this is a folder that `slowstep run` made, as far as it may be looked into."""
    try:
        return is_recording(str(folder))
    except OSError:
        return False


def _is_run(folder: Path) -> bool:
    return is_recording_folder(folder) and not holds_nothing(str(folder))


def _began(folder: Path) -> tuple[float, int, str]:
    """When it was begun; of one second, `...-2` is after the one without a number, and `-10` after `-9`."""
    started = _first_notes(folder).get("run", {}).get("started")
    try:
        seconds = datetime.datetime.fromisoformat(str(started)).timestamp()
    except (ValueError, OverflowError, OSError):
        try:
            seconds = folder.stat().st_mtime
        except OSError:
            seconds = 0.0
    return seconds, len(folder.name), folder.name


def is_going_on(folder: Path) -> bool:
    """Whether a recording is being made, or one of a later start of the script below it."""
    return any(map(_is_made_now, (folder, *_folders(folder / contract.LATER_STARTS_FOLDER))))


def _is_made_now(folder: Path) -> bool:
    """By a process of this machine that lives, and is not another one of the same number."""
    launcher = _first_notes(folder).get("process", {})
    pid, noted_ns = _number(launcher.get("pid")), _number(launcher.get("realtime_ns"))
    if pid is None or noted_ns is None or not (folder / contract.CONTROL_FILE).exists() or launcher.get("boot_id") != boot_id():
        return False
    stat = processes.read_stat(int(pid))
    began_s = None if stat is None else processes.started_s(stat)
    return began_s is not None and began_s <= noted_ns / 1e9 + _CLOCK_S


def _first_notes(folder: Path) -> dict[str, dict[str, Any]]:
    """The first notes of the launcher, by their kinds."""
    try:
        with (folder / LAUNCHER_NOTES).open("rb") as file:
            lines = file.read(_HEAD_BYTES).split(b"\n")
    except OSError:
        return {}
    return {str(note.get("kind")): note for line in reversed(lines) if (note := _parsed(line))}


def _report(folder: Path) -> dict[str, Any]:
    try:
        return _parsed((folder / REPORT_FILE).read_bytes())
    except OSError:
        return {}


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        return _dict(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and math.isfinite(value) else None


def _gain(report: dict[str, Any]) -> float | None:
    """What fixing the first finding gains: as measured, else as predicted."""
    findings = report.get("findings")
    first = _dict(findings[0]) if isinstance(findings, list) and findings else {}
    gain = _dict(first.get("gain"))
    return _number(_dict(gain.get("measured")).get("value") or gain.get("predicted"))


def _size_bytes(folder: Path) -> int:
    """What it takes on the disk: files are reserved, and sparse ones smaller than they look."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
            except OSError:
                continue
    return total
