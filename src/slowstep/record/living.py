"""The objects of this process, those among them too that `gc.freeze()` has set aside: of these Python's collector tells nothing.

What only a local variable of a running function leads to is not found then, and no code of the user's is asked. The search stands in the
training's way: it passes over what leads to nothing, as the strings and numbers of a data set, and gives up where it takes too long.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice, repeat
from operator import is_
from typing import Any, Final

# Four times what a large framework has (260 000 objects, found in a second); to know a million takes 100 MB.
_MOST: Final = 1_000_000
# All searches within one together.
_LONGEST_S: Final = 5.0
# Objects whose contents are looked at together.
_TOGETHER: Final = 100
# Longer containers, by the numbers of their types (a metaclass may compare as it likes), are looked at without a copy of what is in them.
_LONG: Final = 10_000
_CONTAINERS: Final = frozenset(map(id, (list, tuple, dict, set, frozenset)))


class TooManyObjects(Exception):
    """What there is cannot be known in the time that a training can wait; the message ends the sentence "not applicable, because ..."."""

    def __init__(self) -> None:
        super().__init__("the script's gc.freeze() leaves too many objects to search one by one: leave that call out")


class _Search(threading.local):
    """What this thread has found, as long as it is to be found only once, and how long it has searched."""

    is_shared = False
    found: list[Any] | None = None
    was_given_up = False
    spent_s = 0.0


_search: Final = _Search()


def are_set_aside() -> bool:
    """Whether the collector keeps any from who asks it."""
    return gc.get_freeze_count() > 0


@contextmanager
def one_search() -> Iterator[None]:
    """Objects that are set aside are searched for once at most within it, by this thread, and all that is searched shares one time."""
    outer, _search.is_shared = _search.is_shared, True
    try:
        yield
    finally:
        _search.is_shared = outer
        if not outer:
            _search.found, _search.was_given_up, _search.spent_s = None, False, 0.0


def objects() -> list[Any]:
    """All that are known; where some are set aside, those that others lead to. Raises TooManyObjects."""
    if not are_set_aside():
        return gc.get_objects()
    with _limited() as ends_s:
        return _known(ends_s)


def holders_of(thing: Any) -> list[Any]:
    """Those that refer to a thing. Raises TooManyObjects."""
    if not are_set_aside():
        return gc.get_referrers(thing)
    with _limited() as ends_s:
        return [each for each in _in_time(_known(ends_s), ends_s) if any(map(is_, _contents(each), repeat(thing)))]


def is_of_a_class(table: dict[Any, Any]) -> bool:
    """Whether a dictionary is a class's own."""
    return any(any(map(is_, gc.get_referents(kind), repeat(table))) for kind in _classes())


@contextmanager
def _limited() -> Iterator[float]:
    """When a search is to end that begins now."""
    began_s = time.monotonic()
    try:
        yield began_s + _LONGEST_S - _search.spent_s
    finally:
        if _search.is_shared:
            _search.spent_s += time.monotonic() - began_s


def _known(ends_s: float) -> list[Any]:
    if not _search.is_shared:
        return _reached(ends_s)
    if _search.was_given_up:
        raise TooManyObjects
    if _search.found is None:
        try:
            _search.found = _reached(ends_s)
        except TooManyObjects:
            _search.was_given_up = True
            raise
    return _search.found


def _reached(ends_s: float) -> list[Any]:
    # Classes that are written in C lead to others, though the collector does not track them.
    new: list[Any] = [*gc.get_objects(), sys.modules, *_classes()]
    seen = {id(each): each for each in new}
    while new:
        found = []
        for each in _next(new, ends_s):
            if id(each) not in seen:
                seen[id(each)] = each
                found.append(each)
                if len(seen) > _MOST:
                    raise TooManyObjects
        new = found
    return list(seen.values())


def _next(things: list[Any], ends_s: float) -> Iterator[Any]:
    """What others lead to, and may lead further."""
    for at in _in_time(range(0, len(things), _TOGETHER), ends_s):
        some = things[at : at + _TOGETHER]
        yield from filter(gc.is_tracked, gc.get_referents(*(each for each in some if not _is_long(each))))
        for each in some:
            if _is_long(each):
                yield from list(islice(filter(gc.is_tracked, _contents(each)), _MOST))
            elif issubclass(type(each), weakref.ref) and (held := weakref.ref.__call__(each)) is not None:
                yield held


def _in_time(things: Iterable[Any], ends_s: float) -> Iterator[Any]:
    for each in things:
        if time.monotonic() > ends_s:
            raise TooManyObjects
        yield each


def _is_long(thing: Any) -> bool:
    return id(type(thing)) in _CONTAINERS and len(thing) > _LONG


def _contents(thing: Any) -> Iterable[Any]:
    if not _is_long(thing):
        return gc.get_referents(thing)
    return chain(thing, dict.values(thing)) if type(thing) is dict else thing


def _classes() -> Iterator[type]:
    """All that there are, by the functions of the types themselves: no class's own is called."""
    seen: dict[int, type] = {id(object): object}
    new: list[type] = [object]
    while new:
        kind = new.pop()
        yield kind
        below: list[type] = type.__subclasses__(kind)
        found = {id(each): each for each in below if id(each) not in seen}
        seen |= found
        new += found.values()
