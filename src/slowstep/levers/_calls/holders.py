"""What holds a function that has no code to replace: modules, classes, lists and dictionaries. Slowstep's own modules keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, Final

from slowstep.levers._calls.wrappers import Call, as_it_is
from slowstep.record.living import holders_of, is_of_a_class
from slowstep.record.timing.tracebacks import PACKAGE

# Py_TPFLAGS_IMMUTABLETYPE of CPython's object.h, since Python 3.10.
_IMMUTABLE: Final = 1 << 8


class Holders:
    """Every place where a built-in function, or a method that a class inherits, is to be replaced. Raises TypeError where none may be,
    TooManyObjects where they cannot be searched for.

    `owner` is the module or class that was named; other places are looked for where it is a module. `kept` makes of a call what a class
    is to keep.
    """

    __slots__ = ("_kept", "_lists", "_owner", "_put", "_replaced", "_tables", "attribute", "original")

    def __init__(self, owner: Any, attribute: str, original: Call, kept: Callable[[Call], Any] | None = None) -> None:
        self._owner, self.attribute, self.original = owner, attribute, original
        # A built-in function is no method: it is not given the instance.
        self._kept = kept or (staticmethod if isinstance(original, BuiltinFunctionType) else as_it_is)
        self._put: Any = None
        self._replaced: tuple[bool, Any] | None = None
        self._tables: list[tuple[dict[Any, Any], Any]] = []
        self._lists: list[list[Any]] = []
        if not isinstance(owner, type):
            self._find()
        elif owner.__flags__ & _IMMUTABLE:
            raise TypeError(f"{owner.__module__}.{owner.__qualname__} is written in C")

    @property
    def identity(self) -> tuple[int, ...]:
        """Equal for two that would replace the same."""
        return (id(self.original), id(self._owner)) if isinstance(self._owner, type) else (id(self.original),)

    @property
    def owner_name(self) -> str:
        """The module that was named, or that of the class that was."""
        return str(self._owner.__module__ if isinstance(self._owner, type) else getattr(self._owner, "__name__", ""))

    def _find(self) -> None:
        for holder in holders_of(self.original):
            if type(holder) is list:
                self._lists.append(holder)
            elif type(holder) is dict and not (_is_ours(holder) or _is_of_a_class(holder)):
                self._tables += [(holder, key) for key, held in holder.items() if held is self.original]

    def replace(self, new: Call) -> None:
        """Put `new` in every place."""
        self.restore()
        self._put = new
        if isinstance(self._owner, type):
            own = vars(self._owner)
            self._replaced = self.attribute in own, own.get(self.attribute)
            setattr(self._owner, self.attribute, self._kept(new))
        self._exchange(self.original, new)

    def restore(self) -> None:
        """Put the original back where it was."""
        if self._put is None:
            return
        if self._replaced is not None:
            was_own, original = self._replaced
            if was_own:
                setattr(self._owner, self.attribute, original)
            else:
                delattr(self._owner, self.attribute)
            self._replaced = None
        self._exchange(self._put, self.original)
        self._put = None

    def _exchange(self, old: Call, new: Call) -> None:
        for table, key in self._tables:
            if table.get(key) is old:
                table[key] = new
        for held in self._lists:
            for place, item in enumerate(held):
                if item is old:
                    held[place] = new


def _is_ours(table: dict[Any, Any]) -> bool:
    """Whether a dictionary is a module of slowstep's."""
    file = table.get("__file__")
    return isinstance(file, str) and file.startswith(PACKAGE)


def _is_of_a_class(table: dict[Any, Any]) -> bool:
    """Whether a dictionary is a class's own, which must not be written to."""
    return "__module__" in table and is_of_a_class(table)
