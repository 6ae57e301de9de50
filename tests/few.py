"""Of many cases of one kind, a few for the quick tests."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def few(cases: Iterable[object], *, every: int) -> list[ParameterSet]:
    """All cases, each one value or a tuple of several; but for one in so many, from the first on, they are marked slow."""
    several = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*values, marks=[pytest.mark.slow] if number % every else []) for number, values in enumerate(several)]
