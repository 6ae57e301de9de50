"""Other launchers of the same job: each records its own ranks, in a folder beside those of the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.sharing.sharing import STAGE as SHARING
from slowstep.diagnosis.unseen_time import HEALTHY_SHARING
from slowstep.document.finding_rows import HealthRow
from slowstep.document.rows import health_row
from slowstep.health import HealthKind
from slowstep.timeline.timeline import Timeline
from slowstep.units import format_ranks

# As `record/system/place.py` names them, in a folder of the job's own.
LAUNCHER_FOLDER: Final = re.compile(r"-rank(\d+)-\d+\Z")
MISSING_LAUNCHERS: Final = HealthKind(
    "missing-launchers", "notice", "of {launchers} launchers {absent} made no folder in {folder}: start all of them the same way"
)


def missing_launchers(timeline: Timeline, folder: Path, m: Measurements) -> list[HealthRow]:
    """What the first of several launchers sees of the others: their folders beside its own, where all of them should be."""
    run = timeline.run
    together = _is_of_job(folder) or m.trainer.facts.local_world_size == run.launchers
    if run.launcher_rank != 0 or run.launchers is None or not together or not LAUNCHER_FOLDER.search(folder.name):
        return []
    found = {int(match[1]) for path in folder.parent.iterdir() if (match := LAUNCHER_FOLDER.search(path.name))}
    absent = sorted(set(range(run.launchers)) - found)
    if not absent:
        return []
    missing = MISSING_LAUNCHERS(len(absent), launchers=run.launchers, absent=format_ranks(absent), folder=folder.parent.name)
    return [health_row(missing)]


def find_other_launcher(folder: Path, m: Measurements) -> Path | None:
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
