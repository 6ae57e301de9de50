"""For what a tf.function was traced, as its type says: which is what TensorFlow looks for among earlier traces."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from slowstep.record.steps.retraces import MOST_ARGUMENTS, TracedArgument, TracedArguments, object_argument, value_argument

_DEEPEST: Final = 16
_MARKER: Final = "object"


def type_of_trace(given: Iterable[Any]) -> Any:
    """Which of these is the type of a function; None where none is."""
    return next((each for each in given if isinstance(getattr(each, "parameters", None), Mapping)), None)


def arguments_of(function_type: Any) -> TracedArguments:
    """Each argument, and each part of one, by the name that the script's function has for it."""
    found: dict[str, TracedArgument] = {}
    for name, parameter in function_type.parameters.items():
        for part, argument in _parts(str(name), getattr(parameter, "type_constraint", None), 0):
            found[part] = argument
            if len(found) > MOST_ARGUMENTS:
                return found
    return found


def _parts(name: str, kind: Any, depth: int) -> Iterator[tuple[str, TracedArgument]]:
    """What a type says, taken apart as far as it is known how."""
    inner = None if depth == _DEEPEST else _inside(kind)
    if inner is not None:
        for part, each in inner:
            yield from _parts(f"{name}{part}", each, depth + 1)
    elif hasattr(kind, "shape") and hasattr(kind, "dtype"):
        yield name, TracedArgument(_shape(kind.shape), str(getattr(kind.dtype, "name", kind.dtype)))
    elif hasattr(kind, "value"):
        yield name, _literal(name, kind.value)
    elif callable(referred := getattr(kind, "_ref", None)):
        yield name, object_argument(referred())
    elif kind is not None:
        yield name, TracedArgument(text=type(kind).__name__)


def _inside(kind: Any) -> list[tuple[str, Any]] | None:
    """The types that this one is made of, each by what a script writes behind a name to have it; None of one that is made of none."""
    # An iterator, whose elements the function takes.
    element = getattr(kind, "_element_spec", None)
    if element is not None:
        return [("", element)]
    held = getattr(kind, "components_tuple", kind)
    mapping = getattr(held, "mapping", held if isinstance(held, dict) else None)
    if isinstance(mapping, Mapping):
        return [(f"[{key!r}]", each) for key, each in mapping.items()]
    several = getattr(getattr(kind, "attributes", held), "components", held)
    return [(f"[{number}]", each) for number, each in enumerate(several)] if isinstance(several, (tuple, list)) else None


def _shape(shape: Any) -> str:
    sizes = None if getattr(shape, "rank", None) is None else tuple(shape.as_list())
    return "of any rank" if sizes is None else str(sizes)


def _literal(name: str, value: Any) -> TracedArgument:
    # A mark stands for what is no number.
    return value_argument(name, math.nan) if type(value).__name__ == _MARKER else value_argument(name, value)
