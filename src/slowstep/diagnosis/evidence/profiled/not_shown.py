"""What a trace may not show, why a rule then cannot judge, and how to record it with whoever's profiler it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Final

from slowstep.analyses.events.places import is_function
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.profiled.marked_steps import by_step, share_of_steps
from slowstep.diagnosis.rule import Answer
from slowstep.findings import NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Reason, Wording

Judge = Callable[[Measurements], Answer]

# With fewer of the device's kernels led back to their launch, what the host did before the others is unknown.
COVERED: Final = 0.90
# What to do where one step was chosen and does not tell enough.
ALL_STEPS: Final = "analyze the trace without --step"

NO_DEVICE_WORK: Final = Wording("no-device-work", "the trace shows no work of the device: {remedy}")
NO_RUNTIME_CALLS: Final = Wording(
    "no-runtime-calls", "the trace has no calls of the device's runtime, so what the host did in a gap is unknown: {remedy}"
)
LAUNCHES_MISSING: Final = Wording(
    "launches-missing",
    "only {share:share} of the kernels have their launch in the trace: {remedy}, over fewer steps so that no event is dropped",
)
NO_MARKS: Final = Wording("no-marks", "the trace marks no steps, which could show what recurs in each of them: {remedy}")
ONE_STEP_CHOSEN: Final = Wording("one-step-chosen", f"one step was chosen, which cannot show what recurs in each: {ALL_STEPS}")
NO_WHOLE_STEP: Final = Wording("no-whole-step", "the trace holds no whole step")
ONE_STEP: Final = Wording("one-step", "the window has one step only, which cannot show what recurs in each: profile at least three steps")


def no_device(m: Measurements) -> Reason | None:
    """Why a rule about the device cannot judge a trace that shows none of its work; None where there is no sign of a device either."""
    if m.device.seen or (m.facts.vendor is None and m.device.name is None and not m.device.launches["launches"].sum()):
        return None
    return NO_DEVICE_WORK(remedy=m.training.words.advise(Remedy.RECORD_DEVICE))


def needs_device(rule: str) -> Callable[[Judge], Judge]:
    """For the `judge` of a rule about the device: it is asked where work of one was seen. Where that is missing the rule has not judged."""

    def asked(judge: Judge) -> Judge:
        @wraps(judge)
        def judged(m: Measurements) -> Answer:
            if m.device.seen:
                return judge(m)
            missing = no_device(m)
            return None if missing is None else NotJudged(rule=rule, reason=missing)

        return judged

    return asked


def no_launches(m: Measurements, at_least: float) -> Reason | None:
    """Why gaps of the device (there is one) cannot be led back to the host: calls that were not recorded, or too few of them.

    None as well where all gaps together take less than `at_least` of the window: then no cause of theirs can matter, whichever it is.
    """
    gaps = m.device.gaps
    if share_of_steps(m, by_step(m, gaps["step"], gaps["end_ns"] - gaps["start_ns"]))[0] < at_least:
        return None
    share = m.completeness.kernels_with_launch
    remedy = m.training.words.advise(Remedy.RECORD_BOTH)
    if "runtime" not in m.facts.recorded or share is None:
        return NO_RUNTIME_CALLS(remedy=remedy)
    return LAUNCHES_MISSING(share=share, remedy=remedy) if share < COVERED else None


def to_mark_steps(m: Measurements) -> str:
    """How the user marks steps, so that a trace shows them."""
    return m.training.words.advise(Remedy.MARK_STEPS)


def no_marks(m: Measurements) -> Reason | None:
    """Why what a step has so many of cannot be told; None where the trace shows steps."""
    return NO_MARKS(remedy=to_mark_steps(m)) if m.marks.is_window else None


def one_step_only(m: Measurements) -> Reason | None:
    """Why what recurs in each step cannot be told from what happens once, as at the start; None where two steps or more are looked at."""
    if m.marks.is_window:
        return no_marks(m)
    if m.marks.is_chosen:
        return ONE_STEP_CHOSEN()
    if not m.marks.whole_steps:
        return NO_WHOLE_STEP()
    return None if m.marks.whole_steps > 1 else ONE_STEP()


def has_stacks(m: Measurements) -> bool:
    """Whether Python functions or stacks are in the trace: to ask for them once more tells nothing new."""
    return "stacks" in m.facts.recorded or "python" in m.facts.recorded


def with_stacks(m: Measurements, wheres: Iterable[str | None]) -> str:
    """What to add to a fix where the trace does not know the user's function; nothing where it does, or where it never will."""
    known = [where for where in wheres if where is not None]
    if known and not any(map(is_function, known)):
        return f" (it is called outside of all functions of {known[0]}: put it into one, and the trace names that)"
    if known or has_stacks(m):
        return ""
    return f" (to get its function, {m.training.words.advise(Remedy.RECORD_FUNCTIONS)})"
