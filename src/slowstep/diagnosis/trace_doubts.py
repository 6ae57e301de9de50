"""Why nothing can be said of a training as a whole by its trace, whatever the findings are."""

from __future__ import annotations

from typing import Final

from slowstep.analyses.device.clocks import REMEDY as CLOCKS_REMEDY
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.whole_steps import COPY_AGAIN, WORK_LOST
from slowstep.diagnosis.evidence.profiled.not_shown import to_mark_steps
from slowstep.diagnosis.law import HEALTHY_UNATTRIBUTED, Answers
from slowstep.diagnosis.viewpoint import Doubt
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import shows
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Reason, Wording
from slowstep.stages import UNATTRIBUTED

# A run needs 30 steps for its verdict; profilers are told to keep three to ten. Of two, one confirms the other.
STEPS_AT_LEAST: Final = 2
# What a trace does not show must be less than what a verdict is about.
COVERED_AT_LEAST: Final = 0.90

ABOUT_WHAT_RAN: Final = Wording("about-what-ran", "{reason}; the findings below are about what ran")
CUT_OFF_TRAINS: Final = Wording("cut-off-trains", f"the file is cut off, so it is not known whether it trains: {COPY_AGAIN}")
NO_STEP_TRAINS: Final = Wording(
    "no-step-trains", "the trace holds no whole step, so it is not known whether it trains: see what was left out, and why"
)
INFERENCE: Final = Wording("inference", "this trace shows no backward pass: it is of an inference, or of a part of a training")
NO_BACKWARD: Final = Wording("no-backward", "this trace shows no backward pass: whether it trains is not seen")
CUT_OFF_NO_STEP: Final = Wording("cut-off-no-step", f"the file is cut off, and no whole step of it is left: {COPY_AGAIN}")
NO_STEPS_FOUND: Final = Wording("no-steps-found", "the trace marks no steps and none could be made out: {to_mark}, and trace it again")
FEW_TRACED: Final = Wording(
    "few-traced",
    f"the trace holds {{steps:count whole step}}, too few for a verdict: trace at least {STEPS_AT_LEAST + 1} ({{how}})",
)
FEW_LEFT: Final = Wording("few-left", "the trace holds {steps:count whole step}, too few for a verdict: see what was left out, and why")
CLOCKS_DIFFER: Final = Wording("clocks-differ", f"{{how}}; {CLOCKS_REMEDY}")
FEW_LAUNCHES: Final = Wording(
    "few-launches",
    "{kernels:share} of the kernels have no launch in the trace: {unattributed:share} of the time has no known cause; {remedy}",
)


def open_at_all(m: Measurements, answers: Answers) -> Doubt | None:
    """Why the verdict stays open whatever was found; None where the trace is enough for one."""
    if not m.training.is_training:
        reason = _no_training(m)
        return Doubt(ABOUT_WHAT_RAN(reason=reason) if answers.findings else reason)
    why = _no_steps(m) or _no_common_clock(m) or _no_launches(m)
    return None if why is None else Doubt(why)


def has_few_steps(m: Measurements) -> bool:
    """Whether the trace holds too few whole steps for a verdict, whichever of them is looked at."""
    return m.marks.whole_steps < STEPS_AT_LEAST


def is_inference(m: Measurements) -> bool:
    """Whether the trace would show a backward pass, and shows none; of a file that was cut off, or without a step, nobody can tell."""
    seen = m.facts.complete and m.marks.whole_steps > 0
    return seen and not m.training.is_training and bool(shows(m.facts.framework, Event.BACKWARD) or m.facts.gradients is False)


def _no_training(m: Measurements) -> Reason:
    if not m.facts.complete:
        return CUT_OFF_TRAINS()
    if not m.marks.whole_steps:
        return NO_STEP_TRAINS()
    return INFERENCE() if is_inference(m) else NO_BACKWARD()


def _no_steps(m: Measurements) -> Reason | None:
    """Which steps the trace has; that one of them was chosen is no lack of steps."""
    if m.marks.is_window and not m.facts.complete:
        return CUT_OFF_NO_STEP()
    if m.marks.is_window:
        return NO_STEPS_FOUND(to_mark=to_mark_steps(m))
    if has_few_steps(m):
        # A first or last step that was traced in part is usual; where records are lost, more steps would lose more.
        is_lost = any(note.of(*WORK_LOST) for note in m.marks.notes)
        if is_lost:
            return FEW_LEFT(steps=m.marks.whole_steps)
        return FEW_TRACED(steps=m.marks.whole_steps, how=m.training.words.advise(Remedy.RECORD_STEPS))
    return None


def _no_common_clock(m: Measurements) -> Reason | None:
    return None if m.completeness.clocks_differ is None else CLOCKS_DIFFER(how=m.completeness.clocks_differ)


def _no_launches(m: Measurements) -> Reason | None:
    launched, unattributed = m.completeness.kernels_with_launch, m.ledger.share(UNATTRIBUTED)
    if not m.device.seen or launched is None or launched >= COVERED_AT_LEAST or unattributed < HEALTHY_UNATTRIBUTED:
        return None
    return FEW_LAUNCHES(kernels=1 - launched, unattributed=unattributed, remedy=m.training.words.advise(Remedy.RECORD_BOTH))
