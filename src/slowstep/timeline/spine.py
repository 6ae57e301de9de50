"""The spine: hosts and devices in the form that one function charges (`analyses/ledger/charge.py`), whichever tables a source filled.

A source that sees a device from afar does not know when its work began and ended: every time has a low and a high, which are one where it
is exact. Absence of a row is idle only where the rows are said to be complete; elsewhere the device may have worked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from slowstep.timeline.intervals import Ints, containing, union

# The number of no thread, and of nothing that a thread did.
NONE = -1
# Before and after all times, and so that their differences are numbers too.
NEVER = int(np.iinfo(np.int64).max // 4)
LONG_AGO = -NEVER


def _nothing() -> Ints:
    return np.zeros(0, dtype=np.int64)


class Stretches(NamedTuple):
    """Stretches of time, in order and without overlap. Shape (n,) each."""

    start_ns: Ints
    end_ns: Ints

    def hold(self, at_ns: Ints) -> NDArray[np.bool_]:
        """Whether each instant lies in one of them."""
        return np.asarray(containing(self.start_ns, self.end_ns, at_ns) >= 0)


class Labelled(NamedTuple):
    """Stretches of time, in order and without overlap, each with the number of what it is."""

    start_ns: Ints
    end_ns: Ints
    label: Ints

    def at(self, at_ns: Ints) -> Ints:
        """What each instant belongs to; NONE where that is nothing."""
        return np.append(self.label, NONE)[containing(self.start_ns, self.end_ns, at_ns)]


NO_STRETCHES = Stretches(_nothing(), _nothing())
NO_LABELS = Labelled(_nothing(), _nothing(), _nothing())


@dataclass(frozen=True, kw_only=True)
class HostLane:
    """What one host thread did: at each instant one thing at most of each kind.

    `named` tells to what time is charged, `waiting` are calls that wait for the device, by number; `own` is work that is named and tells
    no stage, `busy` anything at all.
    """

    thread: int
    named: Labelled
    waiting: Labelled = NO_LABELS
    own: Stretches = NO_STRETCHES
    find_busy: Callable[[], Stretches] = field(default=lambda: NO_STRETCHES, repr=False)

    @cached_property
    def busy(self) -> Stretches:
        """When the thread did anything at all."""
        return self.find_busy()

    @property
    def edges(self) -> Ints:
        """The instants at which what is named, or the thread's own work, changes."""
        return np.concatenate((*self.named[:2], *self.own))


class HostLanes(Protocol):
    """The host threads of a process; `training` is the one that trains, None where that is not known."""

    @property
    def training(self) -> int | None:
        """The thread that trains."""

    def lane(self, thread: int) -> HostLane:
        """What a thread did."""

    def returned_ns(self, calls: Ints) -> Ints:
        """When calls that wait for the device returned, shape (n,); LONG_AGO for NONE."""


@dataclass(frozen=True, kw_only=True)
class KnownLanes:
    """Host threads that are all known; `call_ends_ns` are the ends of the calls that wait for the device, by number."""

    training: int | None
    lanes: Mapping[int, HostLane]
    call_ends_ns: Ints = field(default_factory=_nothing)

    def lane(self, thread: int) -> HostLane:
        """What a thread did; nothing, of one that is not known."""
        return self.lanes.get(thread) or HostLane(thread=thread, named=NO_LABELS)

    def returned_ns(self, calls: Ints) -> Ints:
        """When calls that wait for the device returned, shape (n,); LONG_AGO for NONE."""
        return np.append(self.call_ends_ns, LONG_AGO)[calls]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceIntervals:
    """What a device worked on: one row per piece of work, or per group of them that is known as one. Shape (n,) each.

    It began and ended at an instant that is not before its low and not after its high; between the high of the begin and the low of the
    end the device surely worked, on this or on what was queued before it. `rank`: of what runs at once the lowest number is charged,
    of `ranks` that there are. `thread` dispatched it (NONE: unknown), with a call that returned between the two times `dispatched`.
    `complete`: where all work of the device is among the rows; None: everywhere.
    """

    start_low_ns: Ints
    start_high_ns: Ints
    end_low_ns: Ints
    end_high_ns: Ints
    rank: Ints
    thread: Ints
    dispatched_low_ns: Ints
    dispatched_high_ns: Ints
    ranks: int = 1
    complete: Stretches | None = None

    @classmethod
    def exact(cls, start_ns: Ints, end_ns: Ints, *, rank: Ints, thread: Ints, dispatched_ns: Ints, ranks: int) -> Self:
        """Work of which begin and end are known, as a profiler has it."""
        return cls(
            start_low_ns=start_ns,
            start_high_ns=start_ns,
            end_low_ns=end_ns,
            end_high_ns=end_ns,
            rank=rank,
            thread=thread,
            dispatched_low_ns=dispatched_ns,
            dispatched_high_ns=dispatched_ns,
            ranks=ranks,
        )

    @property
    def is_exact(self) -> bool:
        """Whether all is known of it."""
        pairs = (self.possibly[0], self.surely[0]), (self.surely[1], self.possibly[1]), (self.dispatched_low_ns, self.dispatched_high_ns)
        return self.complete is None and all(np.array_equal(low, high) for low, high in pairs)

    @property
    def surely(self) -> tuple[Ints, Ints]:
        """When each row surely ran: begins and ends; an end that is not after its begin says never."""
        return self.start_high_ns, self.end_low_ns

    @property
    def possibly(self) -> tuple[Ints, Ints]:
        """When each row may have run."""
        return self.start_low_ns, self.end_high_ns

    def ordered(self) -> DeviceIntervals:
        """The rows that may have taken time, in order of their begin; of those that begin together the order stays."""
        taken = np.flatnonzero(self.end_high_ns > self.start_low_ns)
        order = taken[np.argsort(self.start_low_ns[taken], kind="stable")]
        return self.rows(order)

    def rows(self, rows: Ints) -> Self:
        """Some of the rows, by number."""
        return replace(self, **{name: values[rows] for name, values in self._columns().items()})

    def completed(self, thread: int) -> DeviceIntervals:
        """The same with rows for the time in which rows may be missing: `thread` may have dispatched anything by then, and the device may
        have worked on it there.
        """
        if self.complete is None:
            return self
        begin, end = (np.repeat(side, self.ranks) for side in _holes(self.complete))
        unknown = {
            "start_low_ns": begin,
            # It need not be there.
            "start_high_ns": np.full(len(begin), NEVER),
            "end_low_ns": begin,
            "end_high_ns": end,
            "rank": np.tile(np.arange(self.ranks), len(begin) // self.ranks),
            "thread": np.full(len(begin), thread, dtype=np.int64),
            "dispatched_low_ns": np.full(len(begin), LONG_AGO),
            "dispatched_high_ns": end,
        }
        both: dict[str, Any] = {name: np.concatenate((values, unknown[name])) for name, values in self._columns().items()}
        return DeviceIntervals(**both, ranks=self.ranks).ordered()

    def _columns(self) -> dict[str, Any]:
        return {column.name: getattr(self, column.name) for column in fields(self) if column.name not in ("ranks", "complete")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """What a counter tells of a kind of event between two instants: how many there were, and how long they took together.

    A compiled function counts what it does, and nobody sees when it does it.
    """

    start_ns: int
    end_ns: int
    count: int
    total_ns: int


def _holes(complete: Stretches) -> tuple[Ints, Ints]:
    """What lies in none of the stretches."""
    start, end = union(*complete)
    return np.append(LONG_AGO, end), np.append(start, NEVER)
