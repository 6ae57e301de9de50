"""How a training is judged by the recording of its run."""

from __future__ import annotations

from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.compute.one_call import MOST_OF_STEP, held_by_line
from slowstep.diagnosis.evidence.unnamed import how_to_name, name_by_hand
from slowstep.diagnosis.few_steps import is_provisional, provisional, why_provisional
from slowstep.diagnosis.healthy import not_healthy, not_the_cause
from slowstep.diagnosis.law import Answers
from slowstep.diagnosis.viewpoint import Doubt, Viewpoint
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Reason, Wording

NO_PROBLEM = Wording(
    "no-problem", "no problem was found that costs 10 % or more: {share:share} of the time is {stage:stage}, the training's own work{most}"
)
MOST_BY_LINE = Wording("most-by-line", "; {share:share} of the time is in what {line} calls{operation}, forward and backward")
MOSTLY_OPERATION = Wording("mostly-operation", " (mostly {name})")
DEVICE_NOT_RECORDED = Wording(
    "device-not-recorded",
    "the model trains on {device}, and a recording shows at most when that had work, not which: "
    "what of the host's time delays it is known within bounds only; "
    "trace it with {profiler}",
)
WARMUP_TOO_LONG = Wording(
    "warmup-too-long", "a warm-up of {warmup:,} steps, as was asked for, leaves only {left:,} of {total:count step}: leave out fewer"
)


def _claimed(m: Measurements, answers: Answers) -> Answers:
    return provisional(answers) if is_provisional(m) else answers


def _open_at_all(m: Measurements, _: Answers) -> Doubt | None:
    if m.compute.device != "cpu":
        return Doubt(DEVICE_NOT_RECORDED(device=m.compute.device, profiler=m.training.words.advise(Remedy.PROFILER)))
    if m.steps.asked_too_many:
        return Doubt(WARMUP_TOO_LONG(warmup=m.steps.asked_warmup, left=m.steps.count, total=m.steps.total))
    return Doubt(why_provisional(m)) if is_provisional(m) else None


def _no_problem(m: Measurements, stage: str) -> Reason:
    return NO_PROBLEM(share=m.ledger.share(stage), stage=stage, most=_most_by_line(m))


def _most_by_line(m: Measurements) -> Reason | None:
    """The line of a model's own code that holds most of the steps, if one does: often it calls a whole model. None where none does."""
    line = m.compute.work.forward_line
    share = 0.0 if line is None else held_by_line(m, line)
    if line is None or share < MOST_OF_STEP:
        return None
    operation = None if line.operation is None else MOSTLY_OPERATION(name=line.operation)
    return MOST_BY_LINE(share=share, line=line.where, operation=operation)


RECORDING: Final = Viewpoint(
    topics=("compute", "ledger", "machine", "over_time", "steps", "training"),
    claimed=_claimed,
    # What is too uncertain to be claimed is told where it may gain enough, as a doubt of the verdict (`healthy.py`).
    unclaimed=(),
    open_at_all=_open_at_all,
    # All steps are looked at.
    scope=lambda _: None,
    explain_more=lambda m: (how_to_name(m), name_by_hand(m)),
    not_the_cause=not_the_cause,
    not_healthy=not_healthy,
    healthy=_no_problem,
)
