"""Functions without what a recording has put around them: what is measured here is the loader, not the recorder."""

from __future__ import annotations

from typing import Any

from slowstep.record.timing.tracebacks import PACKAGE


def plain(function: Any) -> Any:
    """The function that ours were put around, under all of them; the function itself where none of ours is."""
    while _is_ours(function) and (inner := getattr(function, "__wrapped__", None)) is not None:
        function = inner
    return function


def _is_ours(function: Any) -> bool:
    return str(getattr(getattr(function, "__code__", None), "co_filename", "")).startswith(PACKAGE)
