"""What `slowstep prove` and `slowstep bench` take where they are not told, and what is to be given where that was too little."""

from __future__ import annotations

from typing import Final

# For how long they measure.
USUAL_BUDGET_S: Final = 60.0
# Of `slowstep prove`: half the width of an interval as a share.
USUAL_PRECISION: Final = 0.05
# By the root of that an interval becomes narrower, to a bit more than half.
_TIMES_AS_LONG: Final = 3


def longer_budget_s(budget_s: float, needed_s: float | None = None) -> float:
    """The seconds to give where a budget was too short: whoever advises one names these. `needed_s` are the fewest that may do."""
    return max(_TIMES_AS_LONG * budget_s, USUAL_BUDGET_S, needed_s or 0.0)
