"""What a function returned, kept to be returned again: for which arguments it is of use, and when it is not."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

# Reasons, which complete "not applicable, because ...".
GRAPH: Final = "what it returns carries gradients, which one backward pass uses up: it belongs to the model"
ONCE: Final = "what it returns can be used only once (an iterator, a context, something to be awaited)"
USED_UP: Final = "what it returned is used up: its memory was given to a function for good, so it cannot be returned again"
CHANGED: Final = "what it returned is changed afterwards, so it cannot be returned again"

_ATOMS: Final = (type(None), bool, int, float, complex, str, bytes)
_DEEPEST: Final = 3
# Items of one container, and parts of one result, that are looked at.
_ITEMS: Final = 64
_PARTS: Final = 256
_ALONG: Final = 16
# Shapes of arguments for which a result is kept; a function that sees more of them is better measured another way.
MOST_FORMS: Final = 64
NOTHING: Final = object()


class KeptResult:
    """The last result of a function; one for each shape of its arguments, where results have a size themselves (`has_size`)."""

    def __init__(self) -> None:
        self._by_form: dict[Any, Any] = {}
        self.has_size = False
        self._last: Any = NOTHING
        self._mark: Any = None
        self._is_own = False

    def keep(self, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> str | None:
        """Keep a result. Returns why it is of no use, None where it is."""
        if (reason := unusable(value)) is not None:
            return reason
        # A function that gives out an object of its own, again and again, may be expected to change it.
        self._is_own = value is self._last
        self._last, self._mark = value, mark_of(value)
        self.has_size = self.has_size or not isinstance(value, _ATOMS)
        if len(self._by_form) >= MOST_FORMS:
            self._by_form.pop(next(iter(self._by_form)))
        self._by_form[self._key(args, kwargs)] = value
        return None

    def get(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result to be returned for such arguments; NOTHING where there is none yet."""
        # The likely case is quick: a function that is called for every pixel is no faster than what answers it.
        return self._by_form.get(self._key(args, kwargs) if self.has_size else None, NOTHING)

    def values(self) -> list[Any]:
        """All that may be returned."""
        return list(self._by_form.values())

    @property
    def is_changed(self) -> bool:
        """Whether the last result was changed by whoever got it. Sure after two calls: the first may have given an object of its own."""
        return self._last is not NOTHING and not self._is_own and mark_of(self._last) != self._mark

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.has_size:
            return None
        return tuple(map(_form, args)), tuple((name, _form(value)) for name, value in kwargs.items())


def unusable(value: Any) -> str | None:
    """Why a value cannot be returned a second time; None where it can."""
    for part in islice(_parts(value, _DEEPEST), _PARTS):
        kind = type(part)
        # Contexts of other classes can be entered again: pictures, locks, files' folders.
        if hasattr(kind, "__next__") or hasattr(kind, "__await__") or kind.__module__ == "contextlib":
            return ONCE
        if getattr(part, "grad_fn", None) is not None:
            return GRAPH
    return None


def is_used_up(value: Any, checks: Sequence[Callable[[Any], bool]]) -> bool:
    """Whether anything that a value consists of is, as the `checks` of frameworks say."""
    if not checks:
        return False
    parts = [part for part in islice(_parts(value, _DEEPEST), _PARTS) if not isinstance(part, _ATOMS)]
    try:
        return any(check(part) for check in checks for part in parts)
    except Exception:  # classes of the script's own raise whatever they like: what cannot be looked at is not returned again
        return True


def mark_of(value: Any) -> Any:
    """What differs once a value has been changed in place: versions of tensors, sums of arrays, items of containers."""
    return [_mark(part) for part in islice(_parts(value, _DEEPEST), _PARTS)]


def _mark(part: Any) -> Any:
    if isinstance(part, _ATOMS):
        return part
    if isinstance(part, (list, tuple, dict, set)):
        return id(part), len(part)
    try:
        # An array of numpy's has a sum, a tensor a version; one made for inference has none.
        seen = _sum(part) if hasattr(part, "__array_interface__") else part._version
    except Exception:  # properties of the script's own raise whatever they like
        seen = None
    return id(part), seen


def _sum(array: Any) -> int:
    """Of up to 16 places along each dimension: whoever changes an array in place changes most of it."""
    places = tuple(slice(None, None, max(length // _ALONG, 1)) for length in array.shape)
    return zlib.crc32(array[places].tobytes())


def _parts(value: Any, depth: int) -> Iterator[Any]:
    """A value and what it consists of."""
    yield value
    if depth == 0 or isinstance(value, _ATOMS):
        return
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, (list, tuple, set)):
        inner = value
    elif not hasattr(value, "dtype"):
        inner = getattr(value, "__dict__", {}).values() if not callable(value) else ()
    for part in list(islice(inner, _ITEMS)):
        yield from _parts(part, depth - 1)


def _form(argument: Any) -> Any:
    """What the size of a result may depend on."""
    if isinstance(argument, _ATOMS):
        return None
    if isinstance(argument, (list, tuple, dict, set)):
        return len(argument), next((_shape(item) for item in (argument.values() if isinstance(argument, dict) else argument)), None)
    return _shape(argument)


def _shape(argument: Any) -> Any:
    try:
        return argument.shape, argument.dtype
    except Exception:
        # Pictures of PIL have a size, and properties of the script's own raise whatever they like.
        size = getattr(argument, "size", None) if type(argument).__module__.startswith("PIL.") else None
        return size if isinstance(size, tuple) else None
