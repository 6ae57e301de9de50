"""What a batch says of itself: how many samples and bytes are in it. Anything unknown is -1, as in a record. Nothing here raises.

No code of the user's is asked: what reads a batch must neither fail nor change it. What an installed library computes (the shape of an
array that is no object of Python, the values of a mapping) is asked of that library; where it fails the answer is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from slowstep.record.timing.forms import Ask, Form, form_of

_DEEPEST: Final = 4
_MOST_PARTS: Final = 64
# Objects and containers within one batch that are looked at, which takes less than a millisecond: of 64 samples of 15 arrays each all.
_MOST: Final = 1024
# By their numbers, the types that neither are arrays nor hold any: of tokens and labels there may be thousands in a batch.
_PLAIN: Final = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


def samples_in(batch: Any) -> int:
    """The leading dimension of the first array found in a nested batch."""
    shape = shape_in(batch)
    return -1 if shape is None else shape[0]


def shape_in(batch: Any) -> tuple[int, ...] | None:
    """The first two lengths, or the only one, of the first array with a leading dimension that is found in a nested batch; None where there
    is none.
    """
    return _shape_in(batch, _DEEPEST, [_MOST])


def bytes_in(batch: Any) -> int:
    """Bytes of all arrays in a nested batch; not known of one of more parts than are looked at."""
    left = [_MOST]
    total = _bytes_in(batch, _DEEPEST, left)
    return total if left[0] >= 0 else -1


def parts_of(batch: Any) -> Iterable[Any] | None:
    """The items or values of what is made of Python's lists, tuples and dictionaries; None of all else."""
    parts = form_of(batch).parts
    return None if parts is None else parts(batch)


def _shape_in(batch: Any, deeper: int, left: list[int]) -> tuple[int, ...] | None:
    form = form_of(batch)
    if form.shape is not None:
        shape = _answer(form.shape, batch)
        if shape is not None:
            return _leading(shape)
    for part in _parts(batch, form) if deeper else ():
        if id(type(part)) not in _PLAIN:
            left[0] -= 1
            if left[0] < 0:
                break
            found = _shape_in(part, deeper - 1, left)
            if found is not None:
                return found
    return None


def _bytes_in(batch: Any, deeper: int, left: list[int]) -> int:
    form = form_of(batch)
    if form.nbytes is not None:
        size_bytes = _answer(form.nbytes, batch)
        if type(size_bytes) is int:
            return size_bytes
    total = -1
    parts = [part for part in _parts(batch, form) if id(type(part)) not in _PLAIN] if deeper else []
    left[0] -= len(parts)
    for part in parts if left[0] >= 0 else ():
        found = _bytes_in(part, deeper - 1, left)
        if found >= 0:
            total = found + max(total, 0)
    return total


def _parts(batch: Any, form: Form) -> Iterable[Any]:
    if form.parts is not None:
        return islice(form.parts(batch), _MOST_PARTS)
    return () if form.values is None else _first_of(form.values, batch)


def _first_of(values: Ask, batch: Any) -> Iterable[Any]:
    """The first values of a library's own mapping."""
    try:
        return list(islice(values(batch), _MOST_PARTS))
    except Exception:  # the library's own objection, whatever it is: not known is an answer
        return []


def _leading(shape: Any) -> tuple[int, ...] | None:
    lengths = shape[:2] if type(shape) is tuple else _first_two(shape)
    if not lengths or type(lengths[0]) is not int:
        return None
    return lengths if type(lengths[-1]) is int else lengths[:1]


def _first_two(shape: Any) -> tuple[Any, ...]:
    if issubclass(type(shape), tuple):
        return tuple.__getitem__(shape, slice(2))
    if (item := form_of(shape).item) is None:
        return ()
    lengths = []
    for at in range(2):
        try:
            lengths.append(item(shape, at))
        except Exception:  # of no more dimensions, or of as many as are not known yet
            break
    return tuple(lengths)


def _answer(ask: Ask, thing: Any) -> Any:
    try:
        return ask(thing)
    except Exception:  # a sparse tensor has no bytes, a donated array no shape: not known is an answer
        return None
