"""What `slowstep prove` and `slowstep bench` take where they are not told."""

from __future__ import annotations

from typing import Final

# For how long they measure.
USUAL_BUDGET_S: Final = 60.0
# Of `slowstep prove`: half the width of an interval as a share.
USUAL_PRECISION: Final = 0.05
