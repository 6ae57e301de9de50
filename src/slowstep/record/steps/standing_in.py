"""Stands in for a module whose class somebody is about to make an object of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StandIn:
    """All that a module has; when its attribute `watched` is asked for, `told` is called first."""

    def __init__(self, module: Any, watched: str, told: Callable[[], None]) -> None:
        self._module, self._watched, self._told = module, watched, told

    def __getattr__(self, name: str) -> Any:
        if name == self._watched:
            self._told()
        return getattr(self._module, name)
