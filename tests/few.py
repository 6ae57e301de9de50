"""Of many cases of one kind, a few for the quick tests, and where each takes long, some for all of them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

# Of cases that are as many as slowstep has parts of a kind: each is run every night, and one in so many with every change.
SWEPT = 4


def few(cases: Iterable[object], *, every: int, is_sweep: bool = False) -> list[ParameterSet]:
    """All cases, each one value or a tuple of several; but for one in so many, from the first on, they are marked slow, and of a sweep most
    of those nightly.
    """
    several = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*values, marks=_marks(number, every, is_sweep=is_sweep)) for number, values in enumerate(several)]


def _marks(number: int, every: int, *, is_sweep: bool) -> list[pytest.MarkDecorator]:
    if number % every == 0:
        return []
    return [pytest.mark.nightly if is_sweep and number % SWEPT else pytest.mark.slow]
