"""The outermost forward of a step and the beginning of its backward, for a lever that changes what lies between them."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from slowstep.frameworks.torch.inside._scaling import when_scaling
from slowstep.record.experiment.training import Training
from slowstep.record.patch import Undo, all_of, replace


class Forward:
    """Replaces `nn.Module.__call__` and `torch.autograd.backward`, and until enough steps are seen what enters autocast or scales.

    While `is_on`, `around` is called with each outermost forward of the training thread that has gradients, and `before_backward` before
    each backward pass. `seen_precision` says what the script uses of mixed precision by itself, None where nothing was seen of it.
    `modules` are the outermost ones of the first steps, of those that are still there.
    """

    ENOUGH_STEPS: Final = 2
    # A script may make modules anew in each forward, and never call backward.
    MOST_MODULES: Final = 100

    def __init__(self, training: Training, *, around: Callable[[Callable[[], Any]], Any], before_backward: Callable[[], None]) -> None:
        self._training, self._around, self._before_backward = training, around, before_backward
        self.is_on = False
        self.seen_steps = 0
        self.seen_precision: str | None = None
        self._saw_forward = False
        # By id: a module may compare as it likes.
        self._outermost: dict[int, weakref.ref[Any]] = {}
        # In a forward or a backward: a checkpointed module's forward runs again inside the latter.
        self._is_inside = False
        torch: Any = sys.modules["torch"]
        self._has_gradient: Callable[[], bool] = torch.is_grad_enabled
        self._undo: Undo = all_of(
            [
                replace(torch.nn.Module, "__call__", self._called(torch.nn.Module.__call__)),
                replace(torch.autograd, "backward", self._backward(torch.autograd.backward)),
            ]
        )
        self._stop_looking: Undo = all_of(
            [
                replace(torch.autocast, "__enter__", self._entered(torch.autocast.__enter__)),
                replace(torch.amp.GradScaler, "scale", when_scaling(torch.amp.GradScaler.scale, self._scaled)),
            ]
        )

    @property
    def modules(self) -> list[Any]:
        """Outermost modules that were called with gradients, each once."""
        return [module for module in (known() for known in self._outermost.values()) if module is not None]

    def remove(self) -> None:
        """Put everything back."""
        self.is_on = False
        self._stop_looking()
        self._undo()

    def _called(self, original: Any) -> Any:
        # Called for every module of every step: the first line is all that most calls cost.
        has_gradient, ident = self._has_gradient, threading.get_ident

        @functools.wraps(original)
        def __call__(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            if self._is_inside or not has_gradient() or ident() != self._training.thread:
                return original(module, *args, **kwargs)
            self._is_inside = self._saw_forward = True
            try:
                if self.seen_steps < self.ENOUGH_STEPS and len(self._outermost) < self.MOST_MODULES:
                    self._outermost[id(module)] = weakref.ref(module)
                if self.is_on:
                    return self._around(lambda: original(module, *args, **kwargs))
                return original(module, *args, **kwargs)
            finally:
                self._is_inside = False

        return __call__

    def _backward(self, original: Any) -> Any:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._is_inside or threading.get_ident() != self._training.thread:
                return original(*args, **kwargs)
            self._is_inside = True
            try:
                self._before_backward()
                self._look()
                return original(*args, **kwargs)
            finally:
                self._is_inside = False

        return backward

    def _look(self) -> None:
        if self._saw_forward:
            self.seen_steps += 1
            self._saw_forward = False
        if self.seen_steps >= self.ENOUGH_STEPS:
            self._stop_looking()

    def _entered(self, original: Any) -> Any:
        @functools.wraps(original)
        def __enter__(context: Any) -> Any:
            if getattr(context, "_enabled", False):
                self.seen_precision = "torch.autocast"
            return original(context)

        return __enter__

    def _scaled(self, scaler: Any, outputs: Any) -> None:
        self.seen_precision = "a GradScaler"
