"""Random numbers of the input, drawn from a state of their own, so that what the model draws does not change the order of the data.

A sampler takes its seed from torch's global generator when an epoch begins, workers take theirs from it too, and a loader without workers
augments with whatever the global generators give. Dropout draws from the same ones: a lever that makes it draw another number of times
would change the data of the next epoch.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

_State = tuple[Any, ...]


class InputStream:
    """Swaps the states of `random`, `numpy.random` and torch's generator of the CPU while input is made on the main thread.

    Its own state is a copy of the script's when input is asked for first, and again after the script has set a seed.
    """

    def __init__(self) -> None:
        self._own: _State | None = None
        self._is_inside = False

    def restart(self) -> None:
        """The script has seeded its generators: the input's begin there too."""
        if not self._is_inside:
            self._own = None

    def wrap(self, original: Any) -> Any:
        """A method that makes input, with these states around it."""

        @functools.wraps(original)
        def method(*args: Any, **kwargs: Any) -> Any:
            if self._is_inside or threading.current_thread() is not threading.main_thread():
                return original(*args, **kwargs)
            theirs = self._enter()
            try:
                return original(*args, **kwargs)
            finally:
                self._leave(theirs)

        return method

    def _enter(self) -> _State:
        theirs = _get()
        if self._own is not None:
            _set(self._own)
        self._is_inside = True
        return theirs

    def _leave(self, theirs: _State) -> None:
        self._is_inside = False
        self._own = _get()
        _set(theirs)


def _generators() -> list[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    found: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [(random.getstate, random.setstate)]
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy.random")
    if torch is not None:
        found.append((torch.get_rng_state, torch.set_rng_state))
    if numpy is not None:
        found.append((numpy.get_state, numpy.set_state))
    return found


def _get() -> _State:
    return tuple(get() for get, _ in _generators())


def _set(states: _State) -> None:
    # A module that was imported meanwhile comes last, and keeps its state.
    for (_, put), state in zip(_generators(), states, strict=False):
        put(state)
