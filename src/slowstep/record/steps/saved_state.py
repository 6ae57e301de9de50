"""Whether what is written is a training's state: its parameters, copies of them, or what an optimizer keeps for each.

What writes any objects is no sign of a checkpoint: predictions and pictures are written by the same functions. What is written tells:
mostly arrays that lie where a parameter lies, or as many of its shapes as a copy of the model has.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.attributes import own_attributes
from slowstep.record.framework import PlacedArray, array_readers
from slowstep.record.steps.held_parameters import ParameterHolders
from slowstep.shares import MOSTLY

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# One array may have the shape of a parameter by chance.
FEWEST_COPIES: Final = 2
# Objects: a large model and its optimizer have some thousands. A buffer of a million transitions is left after some ms.
MOST_LOOKED_AT: Final = 4_000
# To look at what each step writes would take as long as to write it; one that has written the state may write anything between.
MOST_OTHERS: Final = 5
MOST_LINES: Final = 200
_ALWAYS: Final = -sys.maxsize
_PLAIN: Final = (str, bytes, bytearray, int, float, bool, complex, type(None))
_CONTAINERS: Final = (dict, list, tuple)

_Reader = Callable[[Any], "PlacedArray | None"]


class SavedState:
    """Knows a training's state by the parameters that its optimizers hold."""

    def __init__(self, recorder: Recorder) -> None:
        self._holders = recorder.shared(ParameterHolders)
        # How often lines have written what is no state.
        self._others: dict[tuple[CodeType, int], int] = {}
        recorder.undos.append(self._others.clear)

    def is_written(self, given: Any, asked_at: tuple[CodeType, int]) -> bool:
        """Whether it is what a line writes just now; one that only wrote other things, a few times, is not looked at any more."""
        if self._others.get(asked_at, 0) >= MOST_OTHERS:
            return False
        found = False
        try:
            found = self.is_most_of(given)
        finally:
            # Also of what cannot be looked at: it would not be the next time.
            if len(self._others) < MOST_LINES or asked_at in self._others:
                self._others[asked_at] = _ALWAYS if found else self._others.get(asked_at, 0) + 1
        return found

    def is_most_of(self, given: Any) -> bool:
        """Whether most bytes of what is to be written are the state of what an optimizer holds. It runs none of the user's code."""
        held = self._holders.held()
        if not held:
            return False
        readers = (numpys_array, *array_readers())
        arrays = list(_arrays_in(given, readers))
        return any(_is_state(arrays, [*_read(parameters, readers)]) for parameters in held)


def numpys_array(value: Any) -> PlacedArray | None:
    """A NumPy array, where NumPy is imported."""
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    if kind is None or type(value) is not kind:
        return None
    return PlacedArray(value.__array_interface__["data"][0], tuple(value.shape), value.nbytes)


def _is_state(arrays: list[PlacedArray], parameters: list[PlacedArray]) -> bool:
    places = {(each.address, each.size_bytes) for each in parameters}
    shapes = Counter(each.shape for each in parameters)
    itself = [(each.address, each.size_bytes) in places for each in arrays]
    of_state = sum(each.size_bytes for each, same in zip(arrays, itself, strict=True) if same or each.shape in shapes)
    if not of_state or of_state < MOSTLY * sum(each.size_bytes for each in arrays):
        return False
    return any(itself) or _are_copies(arrays, shapes, parameters)


def _are_copies(arrays: list[PlacedArray], shapes: Counter[tuple[int, ...]], parameters: list[PlacedArray]) -> bool:
    """Whether the arrays have the shapes of most parameters, by bytes."""
    size_bytes = {each.shape: each.size_bytes for each in parameters}
    alike = Counter(each.shape for each in arrays) & shapes
    copied = sum(size_bytes[shape] * count for shape, count in alike.items())
    return alike.total() >= FEWEST_COPIES and copied >= MOSTLY * sum(each.size_bytes for each in parameters)


def _arrays_in(given: Any, readers: Iterable[_Reader]) -> Iterator[PlacedArray]:
    """What is in containers and in the attributes of objects, each once."""
    left = deque([given])
    # Held, for the number of an object that is gone may be another's.
    seen: dict[int, Any] = {}
    for _ in range(MOST_LOOKED_AT):
        if not left:
            return
        each = left.popleft()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        # Containers are no arrays, and to ask takes most of the time.
        array = None if issubclass(type(each), _CONTAINERS) else next(_read([each], readers), None)
        if array is None:
            left.extend(part for part in islice(_parts(each), max(MOST_LOOKED_AT - len(left), 0)) if type(part) not in _PLAIN)
        else:
            yield array


def _parts(value: Any) -> Iterable[Any]:
    """By the type, for to ask an object for its class may run its own code."""
    kind = type(value)
    if issubclass(kind, dict):
        return dict.values(value)
    if issubclass(kind, list):
        return list.__iter__(value)
    if issubclass(kind, tuple):
        return tuple.__iter__(value)
    # Classes and modules hold what is nobody's state.
    return () if issubclass(kind, (type, type(sys))) else own_attributes(value).values()


def _read(values: Iterable[Any], readers: Iterable[_Reader]) -> Iterator[PlacedArray]:
    for value in values:
        array = next((found for reader in readers if (found := reader(value)) is not None), None)
        if array is not None and array.size_bytes:
            yield array
