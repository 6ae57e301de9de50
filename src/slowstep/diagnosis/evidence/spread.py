"""How far off a time may be that stacks or a few timed calls tell: farther to one side than to the other where they are few."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.python.binomial import share_bounds


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeSpread:
    """The 90 % interval of a time, as factors of its best estimate."""

    low: float
    high: float

    def or_even(self, half: float) -> TimeSpread:
        """At least so far off, either way."""
        return TimeSpread(low=min(self.low, 1 - half), high=max(self.high, 1 + half))


EXACT = TimeSpread(low=1.0, high=1.0)


def even(half: float) -> TimeSpread:
    """As far off either way."""
    return EXACT.or_even(half)


def stack_spread(stacks: int, of: int) -> TimeSpread:
    """That of a share of stacks. Of what no stack was taken in, something else than stacks tells how long it is."""
    if not stacks:
        return EXACT
    low, high = share_bounds(stacks, of)
    return TimeSpread(low=low * of / stacks, high=high * of / stacks)
