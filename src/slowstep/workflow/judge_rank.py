"""One rank by itself, recorded or traced: judged, and what is kept of it once its measurements are let go of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from slowstep.analyses.job.rank_steps import RankPace
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.next_step import NOTHING_NEXT, NextStep
from slowstep.document.ranks import RankSummary
from slowstep.document.run_rows import Run
from slowstep.document.sections import Sections
from slowstep.document.training import sections_of_training
from slowstep.faults import Attempts, Fault
from slowstep.health import Health
from slowstep.workflow.next_command.after_all import after_one


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSource:
    """What is told otherwise of a rank that was recorded than of one that was traced."""

    path: Path  # the folder of the recording, or the file of the trace
    health: Callable[[], Iterable[Health]]  # what was lost of it, and what is doubtful
    run: Callable[[], Run]
    next_step: Callable[[Diagnosis], NextStep]  # what to type next
    pace: Callable[[Sections], RankPace]
    following: Callable[[Diagnosis], NextStep] | None = None  # as `RankSummary.following`: it is kept, and may hold no measurements


def judge_rank(m: Measurements, source: RankSource, attempt: Attempts) -> RankSummary:
    """What one rank tells by itself; what of it cannot be told is one of the faults of `attempt`.

    Its sections are kept whole, for its report is made once all ranks are judged, and they are small.
    """
    diagnosis = diagnose(m)
    attempt.faults += [*m.faults, *diagnosis.faults]
    health = tuple(source.health())
    sections = sections_of_training(source.run(), m, diagnosis, health, attempt)
    next_step = attempt.outcome("the next step", after_one, source.path, diagnosis, source.next_step)
    return RankSummary(
        sections=sections,
        next_step=NOTHING_NEXT if isinstance(next_step, Fault) else next_step,
        following=source.following,
        pace=source.pace(sections),
        faults=attempt.faults,
    )
