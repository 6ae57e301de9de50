"""What a hook is: one thing of a framework that is recorded, installed from outside and taken away again without a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

Undo = Callable[[], None]


class Unfit(Exception):
    """The installed framework lacks what a hook needs; the hook stays off and the rest works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One thing to hook. `install` runs once `module` has been imported; it raises Unfit, or returns what undoes it completely."""

    name: str
    module: str
    install: Callable[[Recorder], Undo]


def find(root: Any, path: str) -> Any:
    """The attribute `a.b.c` of an object. Raises Unfit, naming the first part that is missing."""
    found = root
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Unfit(f"{getattr(root, '__name__', root)} has no {path}") from None
    return found


# Replacements that were undone while another lay on top of them: owner, name, the replacement, and what puts the original back.
_buried: list[tuple[Any, str, Any, Undo]] = []


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
            _dig_out(owner, name)
        else:
            _buried.append((owner, name, new, put_back))

    return undo


def _dig_out(owner: Any, name: str) -> None:
    """Undo what has come to the top and was to be undone before."""
    found = next((each for each in _buried if each[0] is owner and each[1] == name and each[2] is vars(owner).get(name)), None)
    if found is not None:
        _buried.remove(found)
        found[3]()
        _dig_out(owner, name)


def all_of(undos: list[Undo]) -> Undo:
    """One undo out of several, run backwards."""

    def undo() -> None:
        while undos:
            undos.pop()()

    return undo
