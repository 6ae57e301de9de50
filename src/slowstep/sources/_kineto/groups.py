"""Numbers for repeated values, and lists of events by what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowstep.sources._kineto.events import RAW
from slowstep.sources._kineto.words import GROUPS


class Codes(dict[Any, int]):
    """Numbers values in the order in which they are first met."""

    def __missing__(self, value: Any) -> int:
        self[value] = code = len(self)
        return code

    def of(self, values: Iterable[Any], count: int) -> NDArray[np.int32]:
        """The codes of `count` values."""
        return np.fromiter(map(self.__getitem__, values), dtype=np.int32, count=count)


def texts_of(args: Sequence[Any], field: str, codes: Codes, otherwise: Any = -1) -> Any:
    """Codes of a field that is kept as its text; `otherwise` for rows without it, or as a whole where no row has it."""
    raw = list(map(attrgetter(field), args))
    if raw.count(RAW) == len(raw):
        return otherwise
    found = codes.of([b"" if text is RAW else bytes(text) for text in raw], len(raw))
    return np.where(found == codes[b""], otherwise, found)


class Groups(dict[Any, Callable[[Any], None]]):
    """Category -> append of its group's list; a category not met before is looked up once."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: dict[str, list[Any]] = {group: [] for group in (*GROUPS.values(), "other", "foreign")}
        self.foreign: set[str] = set()
        self[None] = self[""] = self.lists["other"].append

    def __missing__(self, category: str) -> Callable[[Any], None]:
        group = GROUPS.get(category.lower())
        if group is None:
            group = "foreign"
            self.foreign.add(category)
        self[category] = append = self.lists[group].append
        return append

    def clear(self) -> None:
        for events in self.lists.values():
            events.clear()
