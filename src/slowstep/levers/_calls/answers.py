"""What answers the calls of a function in its place: its own last result, or another function. The same here and in loader workers."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any, Final

from slowstep.levers._calls.handing import Call
from slowstep.levers._calls.turns import CallTurns
from slowstep.levers._calls.values import CHANGED, GRAPH, NOTHING, ONCE, USED_UP, KeptResult, is_used_up
from slowstep.record.framework import tracers, used_up_checks

UPDATES: Final = "the training's own work is done in it: gradients or the update of the model"
ASKS: Final = "the training asks for its input in it: mock-loader is the lever for that"
PARAMETERS: Final = "the second function does not take what the first one is called with"
RAISED: Final = "the second function raised an error where the first one did not"
# A worker tells by number why it refuses.
REASONS: Final = (GRAPH, ONCE, CHANGED, UPDATES, ASKS, PARAMETERS, RAISED, USED_UP)
# A result that waits in a queue of the script's is used up some steps after it was returned: so many are waited for where it may be.
QUEUED: Final = 8


class CallAnswer:
    """Handles the calls of one function. `calls` counts those seen, `replaced` those that did not reach it; `refused`: why it cannot."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls = self.replaced = 0
        self.refused: str | None = None
        self._tracers = tracers()

    def is_traced(self) -> bool:
        """Whether a call is made into code that is kept: what answers it would be there after the lever is off."""
        return any(is_tracing() for is_tracing in self._tracers)

    def handle(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call of the function; `call` is the function itself."""
        raise NotImplementedError

    def look(self) -> None:
        """Called between steps, or batches: see what has become of the results."""

    def switch(self, *, on: bool) -> None:
        """Answer from now on, or no longer."""
        self.is_on = on

    def begin_counting(self) -> None:
        """From here on steps of the block are counted."""

    @property
    def is_ready(self) -> bool:
        """Whether what it needs to see of the function has been seen."""
        return self.calls > 0


class LastResult(CallAnswer):
    """Gives back what the function returned last. One call in `every` reaches it; so do those with arguments of a shape not seen yet."""

    def __init__(self, turns: CallTurns, needed: Callable[[], Any] = tuple) -> None:
        super().__init__()
        self._turns, self._kept = turns, KeptResult()
        # Counts of what the training does, by the reason for which a function that does it is left alone.
        self._needed = needed
        self._used_up = used_up_checks()
        # Looks since the first call, and what that returned.
        self._looks, self._first = 0, NOTHING

    def handle(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer with the last result, or call the function and keep what it returns."""
        if self.is_traced():
            return call(*args, **kwargs)
        self.calls += 1
        if self.is_on and self.refused is None:
            value = self._kept.get(args, kwargs) if self._turns.is_left_out() else NOTHING
            if value is not NOTHING and is_used_up(value, self._used_up):
                self.refused = USED_UP
            elif value is not NOTHING:
                self.replaced += 1
                return value
        return self._watched(call, args, kwargs)

    def switch(self, *, on: bool) -> None:
        """Answer from now on, or no longer."""
        if on and not self.is_on:
            self._turns.begin_block()
        super().switch(on=on)

    def begin_counting(self) -> None:
        """From here on steps of the block are counted."""
        self._turns.begin_counting()

    def _watched(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.refused is not None:
            return call(*args, **kwargs)
        before = self._needed()
        value = call(*args, **kwargs)
        self.refused = _first_moved(before, self._needed()) or self._kept.keep(args, kwargs, value)
        if self._used_up and self.refused is None and not self._looks and self._first is NOTHING:
            self._first = value
        return value

    def look(self) -> None:
        """Refuse where a result has been changed, or used up, by whoever got it."""
        if self.refused is not None or not self.calls:
            return
        self._looks += 1
        if any(is_used_up(value, self._used_up) for value in (self._first, *self._kept.values())):
            self.refused = USED_UP
        elif self.calls > 1 and self._kept.is_changed:
            self.refused = CHANGED
        if self._is_outlived or self.refused is not None:
            self._first = NOTHING

    @property
    def is_ready(self) -> bool:
        """Whether a call has been seen, and what it returned stayed of use long enough."""
        return super().is_ready and (self._is_outlived or self.refused is not None)

    @property
    def _is_outlived(self) -> bool:
        return not self._used_up or self._looks >= QUEUED


class OtherFunction(CallAnswer):
    """Calls another function; where that one raises, the function itself."""

    def __init__(self, other: Call) -> None:
        super().__init__()
        self._other = other
        self._signature = _signature(other)
        # Threads inside the other function: what it calls itself is not redirected to it again.
        self._inside: set[int] = set()

    def handle(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer with the other function's result while on."""
        if self.is_traced():
            return call(*args, **kwargs)
        self.calls += 1
        if self.refused is not None or threading.get_ident() in self._inside:
            return call(*args, **kwargs)
        if not self.is_on:
            self._check(args, kwargs)
            return call(*args, **kwargs)
        return self._redirect(call, args, kwargs)

    def _redirect(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        me = threading.get_ident()
        self._inside.add(me)
        try:
            value = self._other(*args, **kwargs)
        except Exception:  # whatever the other function raises: the script gets what its own returns
            value = NOTHING
        finally:
            self._inside.discard(me)
        if value is not NOTHING:
            self.replaced += 1
            return value
        # Where this raises too, it is as it would have been.
        value = call(*args, **kwargs)
        self.refused = RAISED
        return value

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._signature is not None:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError:
                self.refused = PARAMETERS


def _signature(function: Call) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        # Built-in functions do not always tell.
        return None


def _first_moved(before: tuple[tuple[str, int], ...], after: tuple[tuple[str, int], ...]) -> str | None:
    return next((reason for (reason, count), (_, now) in zip(before, after, strict=True) if now != count), None)
