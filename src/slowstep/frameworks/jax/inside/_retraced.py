"""For what a jitted function was traced: shapes and types of arrays, and of static arguments the types alone."""

from __future__ import annotations

import inspect
import re
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.jax.inside._framework import FRAMEWORK
from slowstep.record.attributes import code_of, innermost
from slowstep.record.steps.named_spans import place_of_code
from slowstep.record.steps.retraces import MOST_ARGUMENTS, Retraces, TracedArgument, TracedArguments, kind_argument

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Traces that are known by themselves: of a function that has effects JAX tells each time it is called.
_KEPT: Final = 16
_STATIC: Final = (bool, int, float, str)
_ARGUMENT: Final = re.compile(r"\w*")


class RetracedFunctions:
    """Notes what changed where one is traced again."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._retraces = recorder, Retraces(recorder, FRAMEWORK.name)
        self._seen: deque[weakref.ref[Any]] = deque(maxlen=_KEPT)
        recorder.forgetters.append(self._seen.clear)

    def called(self, known: Any, function: Any, given: tuple[Any, Any], traced: Any) -> None:
        """A function, of which `known` is all that is known, was called with this on its longer way; `traced` is what JAX keeps of it.

        Raises nothing.
        """
        try:
            jaxpr = getattr(traced, "params", {}).get("jaxpr")
            if jaxpr is None or getattr(traced, "in_avals", None) is None or self._is_seen(jaxpr.jaxpr):
                return
            code = code_of(innermost(function))
            own = code if code is not None and place_of_code(code)[0] is not None else None
            # As JAX names it where it tells what compiling takes.
            name = traced.params.get("name") or known.name
            self._retraces.traced(known, str(name), own, lambda: arguments_of(function, given, traced))
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _is_seen(self, jaxpr: Any) -> bool:
        if any(seen() is jaxpr for seen in self._seen):
            return True
        self._seen.append(weakref.ref(jaxpr))
        return False


def arguments_of(function: Any, given: tuple[Any, Any], traced: Any) -> TracedArguments:
    """Each array that it takes, by the name that the script's function has for it, and what is static."""
    avals = traced.in_avals[: MOST_ARGUMENTS + 1]
    names = tuple(getattr(traced, "arg_names", None) or ())
    names = names if len(names) >= len(avals) else tuple(f"argument {number}" for number in range(len(avals)))
    found = {str(name): _of_array(aval) for name, aval in zip(names, avals, strict=False)}
    arrays = {match[0] for name in found if (match := _ARGUMENT.match(name))}
    # What has no name among the arrays was given by value.
    static = {name: value for name, value in _by_name(function, given).items() if name not in arrays and type(value) in _STATIC}
    return found | {name: kind_argument(value) for name, value in static.items()}


def _of_array(aval: Any) -> TracedArgument:
    weak = ", weak" if getattr(aval, "weak_type", False) else ""
    return TracedArgument(str(tuple(getattr(aval, "shape", ()))), f"{getattr(aval, 'dtype', type(aval).__name__)}{weak}")


def _by_name(function: Any, given: tuple[Any, Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(function).bind(*given[0], **given[1]).arguments)
    except (TypeError, ValueError):
        return {}
