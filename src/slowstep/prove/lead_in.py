"""The lead-in of an experiment: the training is recorded as `slowstep run` does it until a diagnosis has enough to go by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from slowstep.errors import NothingRecorded
from slowstep.prove.executor import Executor, Progress
from slowstep.prove.first_updates import START_S, NeverTrained, start_up

ReportDict = dict[str, Any]
# `enough` and `limit`: the training goes on. `ended`: it does not. `never trained`: no update came in time.
LeadInEnd = Literal["enough", "limit", "ended", "never trained"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeadLimits:
    """What is enough, and how long it is waited for, in seconds; all but `start_s` count from the first update."""

    start_s: float = START_S
    # 30 steps in the window (the least for a verdict) after a warm-up of a fifth and two ends.
    updates: int = 45
    # Stacks are taken some 14 times a second, and calls are timed now and then: less than this names few functions.
    enough_s: float = 5.0
    # Two epochs, checkpoints or validations that are this far apart are waited for.
    periods_s: float = 20.0
    most_s: float = 60.0

    @property
    def whole_s(self) -> float:
        """The longest lead-in, start-up included."""
        return self.start_s + self.most_s


@dataclass(frozen=True, kw_only=True, slots=True)
class LeadIn:
    """How it ended; its report, None where nothing can be made of what was recorded, and why that is."""

    how: LeadInEnd
    report: ReportDict | None
    reason: str | None = None


def lead_in(
    executor: Executor,
    diagnose: Callable[[int], ReportDict],
    tell: Callable[[Progress, LeadLimits], None],
    *,
    limits: LeadLimits | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LeadIn:
    """Wait until the diagnosis has enough, or a limit. `diagnose` makes the report of what was recorded until a time."""
    limits = limits or LeadLimits()
    look_at_s = 0.0

    def diagnosed(how: LeadInEnd) -> LeadIn:
        return _diagnosed(how, diagnose, int(clock() * 1e9))

    try:
        for progress, trained_s in start_up(executor, limits.start_s, clock=clock, sleep=sleep):
            tell(progress, limits)
            if trained_s is None:
                continue
            if trained_s >= limits.most_s:
                return diagnosed("limit")
            if progress.updates >= limits.updates and trained_s >= max(limits.enough_s, look_at_s):
                found = diagnosed("enough")
                if found.report is not None and (_has_whole_periods(found.report) or trained_s >= limits.periods_s):
                    return found
                # Diagnosing takes processor time from the training: not again before there is half as much more.
                look_at_s = min(1.5 * trained_s, max(limits.periods_s, trained_s + 1.0))
    except NeverTrained as error:
        return LeadIn(how="never trained", report=None, reason=str(error))
    return diagnosed("ended")


def _diagnosed(how: LeadInEnd, diagnose: Callable[[int], ReportDict], until_ns: int) -> LeadIn:
    try:
        return LeadIn(how=how, report=diagnose(until_ns))
    except NothingRecorded as error:
        return LeadIn(how=how, report=None, reason=str(error))


def _has_whole_periods(report: ReportDict) -> bool:
    return bool(report["run"].get("whole_periods", True))
