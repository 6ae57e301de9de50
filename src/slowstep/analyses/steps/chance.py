"""What all that reckons with chance shares: the seed of its draws, and how wide an interval is."""

from __future__ import annotations

from typing import Final

# Of all that is drawn at random from a recording or a trace: the same data gives the same report.
SEED: Final = 20200823
# The 95th percentile of a normal distribution: half of its 90 % interval, in standard deviations.
NORMAL_95: Final = 1.645
