"""Events that lack what each has, or hold something else in its place: what can be read of them is kept, and each kind is counted."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowstep.sources._kineto.events import NULL, WIDE_ARGS, Events
from slowstep.sources._kineto.groups import Codes
from slowstep.sources._kineto.numbers import integer


def narrow(events: Events, counts: Counter[str]) -> None:
    """Give loosely decoded events the types that the columns expect."""
    for event in events:
        if not isinstance(event.name, str):
            counts["name-type"] += event.name is not None
            event.name = "" if event.name is None else str(event.name)
        if not isinstance(event.args, WIDE_ARGS):
            counts["args-type"] += event.args is not None
            event.args = None
            continue
        counts["correlation-type"] += _is_no_number(event.args.correlation)
        for field in ("stack", "collective", "element_type"):
            value = getattr(event.args, field)
            setattr(event.args, field, value if isinstance(value, str) else "")


def _is_no_number(value: Any) -> bool:
    """Whether something stands there, and is no whole number, nor one as text."""
    if value == NULL or value is None:
        return False
    return isinstance(value, bool) or integer(value) == NULL or (isinstance(value, float) and not value.is_integer())


class Lacking:
    """Counts rows without a name, and host events without a process or thread, by their codes: a look at each code, none at each event."""

    def __init__(self, names: Codes, threads: Codes, counts: Counter[str]) -> None:
        self._names, self._threads, self._counts = names, threads, counts
        self._threads_seen = 0
        self._nowhere: list[int] = []

    def count_names(self, codes: NDArray[np.int32]) -> None:
        """`codes` are those of some rows' names."""
        code = self._names.get("")
        if code is not None:
            self._counts["no-name"] += int(np.count_nonzero(codes == code))

    def count_threads(self, codes: NDArray[np.int32]) -> None:
        """`codes` are those of some rows' (process, thread)."""
        if len(self._threads) > self._threads_seen:
            new = islice(self._threads.items(), self._threads_seen, None)
            self._nowhere += [code for place, code in new if None in place]
            self._threads_seen = len(self._threads)
        if self._nowhere:
            self._counts["no-place"] += int(np.isin(codes, self._nowhere).sum())

    def count_places(self, events: list[Any]) -> None:
        """Events of devices: their places are not in the tables."""
        if None in map(attrgetter("pid"), events) or None in map(attrgetter("tid"), events):
            self._counts["no-place"] += sum(event.pid is None or event.tid is None for event in events)
