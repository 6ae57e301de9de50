"""What a report says of the other trainings in its recording: a row for each, the sum of their speeds, and who is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.ranks import RankSet, RankTraining
from slowstep.analyses.sharing.sharing import STAGE as SHARING
from slowstep.diagnosis.healthy import HEALTHY_SHARING
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.report import HealthRow, RankRow
from slowstep.document.sections import RankSection, Sections
from slowstep.timeline.timeline import Timeline

STAGES_SHOWN = 2
# Smaller stages say nothing about what is different between ranks (docs/definitions.md: what a finding may claim).
STAGE_FROM = 0.03
JUDGED_SINGLY = "each rank is judged alone: gains assume that no other rank is slower than this one after the fix"
# As `record/system/place.py` names them, in a folder of the job's own.
LAUNCHER_FOLDER = re.compile(r"-rank(\d+)-\d+\Z")


def rank_sections(
    sections: Mapping[int, Sections],
    measured: Mapping[int, Measurements],
    rank_set: RankSet,
    *,
    timeline: Timeline,
    folder: Path,
    files: Mapping[int, str],
    unmeasured: Mapping[int, str],
) -> dict[int, RankSection]:
    """For every report: which rank it is of, how all ranks did, and which are missing. Of a lone training it says nothing of ranks."""
    launchers = {number: tuple(_launchers(timeline, folder, measured[number])) for number in sections}
    if not is_job(rank_set):
        return {number: RankSection(health=launchers[number]) for number in sections}
    by_number = {training.number: training for training in rank_set.trainings}
    rows = [_row(by_number[number], measured[number], sections[number], files[number]) for number in sections]
    rows += [_unmeasured_row(by_number[number]) for number in unmeasured]
    rows.sort(key=lambda row: row["number"])
    notes, absences = tuple(_notes(measured, rank_set)), _absences(rank_set, unmeasured)
    found = {}
    for number in sections:
        training = by_number[number]
        run = {
            "rank": training.facts.rank,
            "training": number,
            "pid": training.facts.pid,
            "rank_rows": rows,
            "trainings": len(rank_set.trainings),
            "all_samples_per_s": _sum_of(sections, by_number, of_job=training.is_rank) if len(sections) > 1 else None,
        }
        found[number] = RankSection(run=run, notes=notes, health=(*launchers[number], *absences))
    return found


def is_job(rank_set: RankSet) -> bool:
    """Whether there is more to be told of than one training alone."""
    return len(rank_set.trainings) > 1 or rank_set.world_size > 1


def waits_for(diagnosis: Diagnosis, folder: Path, m: Measurements) -> int | Path | None:
    """The rank that this one waits for, or the folder of the next launcher, whose ranks are recorded there; None where none is known."""
    if slower := m.sharing.slower:
        return slower[0]
    return _other_launcher(folder, m) if diagnosis.verdict.state == "undetermined" else None


def _row(training: RankTraining, m: Measurements, sections: Sections, file: str) -> RankRow:
    seen = m.sharing.seen or m.sharing.ranks == 1
    own_ms = float(m.sharing.own_ns.mean()) / 1e6 if seen else None
    row = rank_row(sections, report=file, step_ms=float(m.step_ns.mean()) / 1e6, own_ms=own_ms)
    return cast(RankRow, row | {"number": training.number, "rank": training.facts.rank, "pid": training.facts.pid})


def rank_row(sections: Sections, *, report: str, step_ms: float | None, own_ms: float | None) -> dict[str, Any]:
    """The row of a rank that has a report, but for its number, rank and process."""
    shares = [(row["share"], row["stage"]) for row in sections.ledger if row["share"] is not None and row["share"] >= STAGE_FROM]
    largest = sorted(shares, key=lambda each: -each[0])[:STAGES_SHOWN]
    return {
        "steps": sections.run["steps"],
        "samples_per_s": sections.throughput["samples_per_s"],
        "step_ms": step_ms,
        "own_ms": own_ms,
        "stages": [{"stage": stage, "share": share} for share, stage in largest],
        "state": sections.diagnosis.verdict.state,
        "rule": sections.diagnosis.verdict.rule,
        "report": report,
    }


def _unmeasured_row(training: RankTraining) -> RankRow:
    return {
        "number": training.number,
        "rank": training.facts.rank,
        "pid": training.facts.pid,
        "steps": training.steps,
        "samples_per_s": None,
        "step_ms": None,
        "own_ms": None,
        "stages": [],
        "state": None,
        "rule": None,
        "report": None,
    }


def _sum_of(sections: Mapping[int, Sections], by_number: Mapping[int, RankTraining], *, of_job: bool) -> float | None:
    """Samples/s of all recorded ranks of the job; None where one is unknown, and for trainings of their own, which are no job."""
    speeds = [each.throughput["samples_per_s"] for number, each in sections.items() if by_number[number].is_rank]
    if not of_job or len(speeds) < 2 or None in speeds:
        return None
    return float(sum(cast("list[float]", speeds)))


def _notes(measured: Mapping[int, Measurements], rank_set: RankSet) -> list[str]:
    notes = []
    waiting = {number: float(m.sharing.own_ns.mean()) for number, m in measured.items() if m.sharing.slower}
    if waiting:
        fastest = min(waiting, key=lambda number: waiting[number])
        slowest, own_ns = measured[fastest].sharing.slower or (0, 0.0)
        others = f"its own work takes {own_ns / 1e6:.1f} ms per step, that of rank {fastest} only {waiting[fastest] / 1e6:.1f} ms"
        notes.append(f"rank {slowest} sets the pace of the job: {others}")
    if rank_set.world_size > 1:
        notes.append(JUDGED_SINGLY)
    return notes


def _absences(rank_set: RankSet, unmeasured: Mapping[int, str]) -> list[HealthRow]:
    """Ranks that are not in the table, and why."""
    rows: list[HealthRow] = []

    def add(name: str, severity: Any, count: int, remedy: str) -> None:
        if count:
            rows.append({"name": name, "severity": severity, "count": count, "remedy": remedy})

    size = rank_set.world_size
    missing, idle = _listed(rank_set.missing), _listed(rank_set.idle)
    here = "of those on this machine " if rank_set.elsewhere else ""
    add(
        "missing-ranks",
        "notice",
        len(rank_set.missing),
        f"of {size} ranks {here}{missing} left no recording: see how their processes started",
    )
    add("idle-ranks", "notice", len(rank_set.idle), f"{idle} joined the process group and never called an optimizer")
    short = list(unmeasured)
    add("short-trainings", "notice", len(short), f"{_listed(short)}: too few steps were recorded for a report")
    add(
        "earlier-attempts", "info", rank_set.repeated, "processes whose rank another one took over later: a restarted job; not in the table"
    )
    add("ranks-elsewhere", "info", rank_set.elsewhere, "they run on other machines or under launchers of their own, and are recorded there")
    return rows


def _launchers(timeline: Timeline, folder: Path, m: Measurements) -> list[HealthRow]:
    """What the first of several launchers sees of the others: their folders beside its own, where all of them should be."""
    run = timeline.run
    together = _is_of_job(folder) or m.trainer.facts.local_world_size == run.launchers
    if run.launcher_rank != 0 or run.launchers is None or not together or not LAUNCHER_FOLDER.search(folder.name):
        return []
    found = {int(match[1]) for path in folder.parent.iterdir() if (match := LAUNCHER_FOLDER.search(path.name))}
    absent = sorted(set(range(run.launchers)) - found)
    if not absent:
        return []
    remedy = f"of {run.launchers} launchers {_listed(absent)} made no folder in {folder.parent.name}: start all of them the same way"
    return [{"name": "missing-launchers", "severity": "notice", "count": len(absent), "remedy": remedy}]


def _other_launcher(folder: Path, m: Measurements) -> Path | None:
    """The folder of the next launcher of the same job, where this rank waits for others and the job has a folder of its own."""
    mine = LAUNCHER_FOLDER.search(folder.name)
    if not m.sharing.apart or not _is_of_job(folder) or mine is None or m.ledger.share(SHARING) < HEALTHY_SHARING:
        return None
    beside = {int(match[1]): path for path in folder.parent.iterdir() if (match := LAUNCHER_FOLDER.search(path.name)) and path != folder}
    following = sorted(beside, key=lambda rank: (rank < int(mine[1]), rank))
    return beside[following[0]] if following else None


def _is_of_job(folder: Path) -> bool:
    """Whether a recording lies in a folder of its job alone, as `record/system/place.py` names it."""
    return folder.parent.name.startswith("slurm-")


def _listed(numbers: Any) -> str:
    shown = [str(number) for number in numbers]
    text = ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
    return f"rank {text}" if len(shown) == 1 else f"ranks {text}"
