"""Callbacks of a framework's trainer that are left out: their methods are hidden by attributes of the instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.record.experiment.lever import Change, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.framework import steering_callbacks
from slowstep.record.patch import replace


class CallbacksOff(CallsOff):
    """Hides methods of the callbacks of its `holder`. Raises NotApplicable where there are none to hide.

    `methods` are what they do in or after steps, and in validations; not where something begins, for other methods rely on it. Those of
    the class `base`, in one of the `packages`, do nothing.
    """

    methods: tuple[str, ...] = ()
    base = ""
    packages: tuple[str, ...] = ()

    def __init__(self, training: Training, spec: LeverSpec) -> None:
        super().__init__(training, spec.every)
        self._holder, self._name = self.holder(), spec.value
        if not self._chosen():
            raise NotApplicable(self._why_none())

    @classmethod
    def prepare(cls, training: Training, spec: LeverSpec) -> Change:
        """Find the callbacks. Raises NotApplicable where none is meant."""
        return cls(training, spec)

    def holder(self) -> Any:
        """What has the trainer's callbacks, as `callbacks`."""
        raise NotImplementedError

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """No function of a class: other callbacks may inherit it."""
        return ()

    def on(self) -> None:
        """Hide them."""
        super().on()
        for callback in self._chosen():
            for method in self._methods(callback):
                self.add_undo(replace(callback, method, self._left_out(callback, method)))

    def facts(self) -> Mapping[str, Any]:
        """Which callbacks were left as they are, beside the counts."""
        chosen = [id(callback) for callback in self._chosen()]
        return {**super().facts(), "kept": sorted({type(c).__name__ for c in self._all() if id(c) not in chosen})}

    def _left_out(self, callback: Any, method: str) -> Any:
        original, name = getattr(callback, method), f"{type(callback).__name__}.{method}"

        def left_out(*args: Any, **kwargs: Any) -> Any:
            if not self.leaves_out():
                return original(*args, **kwargs)
            self.count(name)
            return None

        return left_out

    def _chosen(self) -> list[Any]:
        if self._name is not None:
            return [callback for callback in self._all() if self._name in _names(type(callback)) and self._methods(callback)]
        return [callback for callback in self._all() if not _is_kept(callback) and self._methods(callback)]

    def _all(self) -> list[Any]:
        return list(self._holder.callbacks)

    def _why_none(self) -> str:
        there = ", ".join(sorted({type(callback).__name__ for callback in self._all()})) or "none"
        if self._name is None:
            return f"the trainer has no callback that could be left out (it has: {there})"
        return f"no callback that does something in steps is called {self._name} (the trainer has: {there})"

    def _methods(self, callback: Any) -> list[str]:
        """The methods that a callback has of its own."""
        if not hasattr(callback, "__dict__"):
            return []
        return [name for name in self.methods if callable(own := getattr(callback, name, None)) and not self._is_of_base(own)]

    def _is_of_base(self, method: Any) -> bool:
        owner, module = getattr(method, "__qualname__", "").rpartition(".")[0], str(getattr(method, "__module__", ""))
        return owner == self.base and module.partition(".")[0] in self.packages


def _names(kind: type) -> tuple[str, str]:
    return kind.__name__, f"{kind.__module__}.{kind.__qualname__}"


def _is_kept(callback: Any) -> bool:
    names = {base.__name__ for base in type(callback).__mro__}
    return bool(names & steering_callbacks()) or "Checkpoint" in names
