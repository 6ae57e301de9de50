"""Which optimizer holds which parameters: one that is made anew for the same model has those of the one before."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from slowstep.record.framework import Framework

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class ParameterHolders:
    """Who had which parameter last, of all frameworks' optimizers."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        # By id() of the parameter, which is another's once it is gone: the reference tells.
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def of(self, parameter: Any) -> int:
        """Number of the optimizer that had it last; 0 where none is known."""
        known, number = self._known.get(id(parameter), (None, 0))
        return number if known is not None and known() is parameter else 0

    def has(self, parameters: list[Any], number: int) -> None:
        """The optimizer of that number has them. Raises TypeError where one takes no weak references."""
        self._known.update((id(each), (weakref.ref(each), number)) for each in parameters)

    def held(self) -> list[list[Any]]:
        """The parameters that are still there, of each optimizer that had them last."""
        found: dict[int, list[Any]] = {}
        for known, number in list(self._known.values()):
            if (parameter := known()) is not None:
                found.setdefault(number, []).append(parameter)
        return list(found.values())

    def forget(self) -> None:
        """Refer to no parameter any more."""
        self._known.clear()


class HeldParameters:
    """Follows the optimizers of one framework."""

    def __init__(self, framework: Framework, holders: ParameterHolders | None = None) -> None:
        self._framework, self._holders = framework, holders or ParameterHolders()

    def describe(self, optimizer: Any, number: int) -> dict[str, Any]:
        """Number of the optimizer that had one of its parameters last, 0 where all are new; nothing where it does not say what it holds, or
        where to know them would harm.
        """
        try:
            parameters = self._framework.parameters_of(optimizer)
            if parameters is None:
                return {}
            shares = max(map(self._holders.of, parameters), default=0)
            self._holders.has(parameters, number)
        except Exception:
            return {}
        return {"shares": shares}

    def forget(self) -> None:
        """Refer to no parameter any more."""
        self._holders.forget()
