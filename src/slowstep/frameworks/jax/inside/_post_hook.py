"""The one function that JAX calls after each call of a jitted function: it is shared with the search for NaN, which else has it alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from slowstep.record.patch import Undo, all_of, find, replace

# The function, its arguments by place and by name, and its result.
PostHook = Callable[[Any, Any, Any, Any], None]
_STATE: Final = "_post_hook_state"


class _Shared:
    """Stands for JAX's setting: whoever sets it is called as well, and whoever unsets it leaves ours."""

    def __init__(self, state: Any, ours: PostHook) -> None:
        self._state, self._ours = state, ours

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def set_global(self, hook: PostHook | None) -> None:
        """For all threads."""
        self._state.set_global(self.both(hook))

    def set_local(self, hook: Any) -> None:
        """For this thread."""
        self._state.set_local(self.both(hook) if hook is None or callable(hook) else hook)

    def both(self, hook: PostHook | None) -> PostHook:
        """Ours, and another one where there is one."""
        ours = self._ours
        if hook is None:
            return ours

        def call_both(function: Any, args: Any, kwargs: Any, result: Any) -> None:
            ours(function, args, kwargs, result)
            hook(function, args, kwargs, result)

        call_both.before = hook  # type: ignore[attr-defined]
        return call_both


def call_after_each(ours: PostHook) -> Undo:
    """Have a function called after each call of a jitted one, on all threads. Raises Unfit where this version of JAX calls none."""
    api = sys.modules["jax._src.api"]
    state = find(api, _STATE)
    find(state, "set_local")
    shared = _Shared(state, ours)
    undo = replace(api, _STATE, shared)
    shared.set_global(state.get_global())
    # `with jax.debug_nans(...)` leaves a setting of the thread's own behind, which counts for more.
    shared.set_local(state.get_local())

    def put_back() -> None:
        for value, put in ((state.get_global(), state.set_global), (state.get_local(), state.set_local)):
            if value is ours or getattr(value, "__name__", "") == "call_both":
                put(getattr(value, "before", None))

    return all_of([put_back, undo])
