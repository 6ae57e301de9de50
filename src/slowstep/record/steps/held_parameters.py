"""Which optimizer holds which parameters: one that is made anew for the same model has those of the one before."""

from __future__ import annotations

import weakref
from typing import Any

from slowstep.record.framework import Framework


class HeldParameters:
    """Follows the optimizers of one framework."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        # By id() of the parameter, which is another's once it is gone: the reference tells.
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def describe(self, optimizer: Any, number: int) -> dict[str, Any]:
        """Number of the optimizer that had one of its parameters last, 0 where all are new; nothing where it does not say what it holds, or
        where to know them would harm.
        """
        try:
            parameters = self._framework.parameters_of(optimizer)
            if parameters is None:
                return {}
            shares = max(map(self._holder, parameters), default=0)
            self._known.update((id(each), (weakref.ref(each), number)) for each in parameters)
        except Exception:
            return {}
        return {"shares": shares}

    def forget(self) -> None:
        """Refer to no parameter any more."""
        self._known.clear()

    def _holder(self, parameter: Any) -> int:
        known, number = self._known.get(id(parameter), (None, 0))
        return number if known is not None and known() is parameter else 0
