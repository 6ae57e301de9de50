"""Measurements of topics that a test says."""

from __future__ import annotations

from typing import Any

from slowstep.analyses.measurements import Measurements
from slowstep.faults import Fault


def of_topics(*, faults: tuple[Fault, ...] = (), **topics: Any) -> Measurements:
    """Measurements of these topics alone."""
    return Measurements({name: lambda value=value: value for name, value in topics.items()}, list(faults)).settle()


def with_topics(m: Measurements, **topics: Any) -> Measurements:
    """The same with other topics in the place of some."""
    return of_topics(faults=m.faults, **(m._found | topics))
