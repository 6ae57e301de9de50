"""Analyses that fail where they read a table which their package does not declare, so that declarations stay true."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import pytest

from slowstep.timeline.timeline import Timeline

ANALYSES = "slowstep.analyses."
TIMELINE = "slowstep.timeline."


class UndeclaredTable(BaseException):
    """No Exception, so that nothing takes it for a fault of the analysis and goes on."""


def unit_of(module: str) -> str | None:
    """The package of analyses that a module is in, or the module where it is in none of them; None of what is no analysis."""
    return module.removeprefix(ANALYSES).partition(".")[0] if module.startswith(ANALYSES) else None


def tables_of(unit: str) -> frozenset[str]:
    """The tables that are declared beside it; none where it declares nothing."""
    return getattr(import_module(f"{ANALYSES}{unit}"), "TABLES", frozenset())


def hold_analyses_to_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has whoever reads a timeline raise UndeclaredTable where that is an analysis that does not declare the table."""
    for name in ("table", "rows", "count"):
        monkeypatch.setattr(Timeline, name, _held(getattr(Timeline, name)))


def _held(read: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(read)
    def reads(timeline: Timeline, table: str, *how: Any, **more: Any) -> Any:
        unit = unit_of(_reader())
        if unit is not None and table not in tables_of(unit):
            raise UndeclaredTable(f"{ANALYSES}{unit} reads the table {table!r}, which is not in its TABLES")
        return read(timeline, table, *how, **more)

    return reads


def _reader() -> str:
    """The module that has asked the timeline, which asks itself as well."""
    frame = sys._getframe(2)
    while (module := str(frame.f_globals["__name__"])) == __name__ or module.startswith(TIMELINE):
        assert frame.f_back is not None
        frame = frame.f_back
    return module
