"""How much of an experiment is left: by its rounds so far, how fast they are, and how fast what they tell becomes more exact. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slowstep.prove.outcome import Interim
from slowstep.prove.stats.design import CONTROL, MIN_ROUNDS


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeLeft:
    """The round that is on, from 1 on, how many there will be, and for how long. Where intervals are not known yet these are the fewest
    rounds and the longest time (`is_known` False).
    """

    round: int
    rounds: int
    seconds: float
    is_known: bool


def time_left(interim: Interim, *, precision: float, budget_s: float) -> TimeLeft:
    """Of one that stops at a precision (half the width of an interval, as a share) or at a budget, whichever is first.

    The width of an interval goes down with the root of the rounds: half of it takes four times as many.
    """
    done, left_s = interim.rounds, max(budget_s - interim.seconds, 0.0)
    widths = [found.gain.precision for arm, found in interim.estimates.items() if arm != CONTROL]
    if not done or not widths or max(widths) >= 1:
        return TimeLeft(round=done + 1, rounds=max(MIN_ROUNDS, done + 1), seconds=left_s, is_known=False)
    each_s = interim.seconds / done
    wanted = max(math.ceil(done * (max(widths) / precision) ** 2), MIN_ROUNDS, done + 1)
    rounds = min(wanted, max(done + int(left_s / each_s), done + 1)) if each_s else wanted
    return TimeLeft(round=done + 1, rounds=rounds, seconds=min((rounds - done) * each_s, left_s), is_known=True)
