"""Replaces attributes of classes and modules from outside, so that they can be put back without a trace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Undo = Callable[[], None]


class Unfit(Exception):
    """The installed framework lacks what a hook needs; the hook stays off and the rest works."""


def find(root: Any, path: str) -> Any:
    """The attribute `a.b.c` of an object. Raises Unfit, naming the first part that is missing."""
    found = root
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            # Of a module that this version does not have, or has not imported, nothing is given.
            owner = "this version" if root is None else getattr(root, "__name__", root)
            raise Unfit(f"{owner} has no {path}") from None
    return found


def argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], position: int, name: str) -> Any:
    """What a call gives for a parameter, by its place or by its name; None where it gives nothing."""
    return args[position] if len(args) > position else kwargs.get(name)


class _Unfinished(threading.local):
    """What puts back all that this thread has replaced since a hook's installation began; None where none is under way."""

    undos: list[Undo] | None = None


_unfinished = _Unfinished()


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """Where an exception ends what is done inside, all that it had replaced by then is put back. Inside it another one has no part."""
    outer, inner = _unfinished.undos, list[Undo]()
    _unfinished.undos = inner
    try:
        yield
    except BaseException:
        all_of(inner)()
        raise
    finally:
        _unfinished.undos = outer


# Replacements that were undone while another lay on top of them: owner, name, the replacement, and what puts the original back.
_shadowed: list[tuple[Any, str, Any, Undo]] = []


def replace(owner: Any, name: str, new: Any) -> Undo:
    """Set an attribute of a class or module, and return what puts the original back.

    Where somebody has replaced ours meanwhile it stays until that one is undone, if that one is of ours too.
    """
    own = vars(owner)
    inherited = name not in own
    original = own.get(name)
    setattr(owner, name, new)

    def put_back() -> None:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    def undo() -> None:
        if vars(owner).get(name) is new:
            put_back()
            _undo_uncovered(owner, name)
        else:
            _shadowed.append((owner, name, new, put_back))

    if _unfinished.undos is not None:
        _unfinished.undos.append(undo)
    return undo


def _undo_uncovered(owner: Any, name: str) -> None:
    """Undo what has come to the top and was to be undone before."""
    found = next((each for each in _shadowed if each[0] is owner and each[1] == name and each[2] is vars(owner).get(name)), None)
    if found is not None:
        _shadowed.remove(found)
        found[3]()
        _undo_uncovered(owner, name)


def all_of(undos: list[Undo]) -> Undo:
    """One undo out of several, run backwards."""

    def undo() -> None:
        while undos:
            undos.pop()()

    return undo
