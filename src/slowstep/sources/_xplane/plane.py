"""One plane of an XPlane file, with its names and numbers looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.sources._xplane.wire import RawLine, RawPlane


class Plane:
    """A plane: `facts` are its own; `lines()` gives its events as columns, a piece of a line at a time."""

    def __init__(self, raw: RawPlane) -> None:
        self._raw, message = raw, raw.message
        self.name = text(message.name)
        self._event_names = {entry.key: text(entry.value.name) or text(entry.value.display_name) for entry in message.event_metadata}
        self._stat_names = {entry.key: text(entry.value.name) for entry in message.stat_metadata}
        self._stat_ids = {name: key for key, name in self._stat_names.items()}
        self.facts = {self._stat_names.get(stat.metadata_id, ""): self.value(stat) for stat in message.stats}

    def lines(self) -> Iterator[Line]:
        """The lines, in the file's order."""
        return (Line(self, line) for line in self._raw.lines())

    def documents(self) -> Iterator[tuple[str, list[bytes]]]:
        """What stands beside the names of events: a program that XLA compiled, for one."""
        for entry in self._raw.message.event_metadata:
            yield text(entry.value.name), [stat.bytes_value for stat in entry.value.stats if stat.HasField("bytes_value")]

    def words(self) -> Iterator[str]:
        """All names of events, and all texts that their facts refer to."""
        yield from self._event_names.values()
        yield from self._stat_names.values()

    def event_name(self, number: int) -> str | None:
        """The name behind an event's number; None where the file does not tell."""
        return self._event_names.get(number) or None

    def stat_id(self, name: str) -> int | None:
        """The number of a kind of fact; None where no event of the plane can have it."""
        return self._stat_ids.get(name)

    def value(self, stat: Any) -> Any:
        """What a fact says: a number, or a text."""
        set_fields = [(field.name, value) for field, value in stat.ListFields() if field.name != "metadata_id"]
        if not set_fields:
            return None
        name, value = set_fields[-1]
        if name == "ref_value":
            return self._stat_names.get(value)
        return text(value) if isinstance(value, bytes) else value


class Line:
    """A line of a plane: a host thread, a stream, or a derived row. `pieces` gives its events, some at a time, in the file's order."""

    def __init__(self, plane: Plane, raw: RawLine) -> None:
        self._plane, self._raw, message = plane, raw, raw.message
        self.id, self.name = int(message.id), text(message.display_name) or text(message.name)

    def pieces(self) -> Iterator[Piece]:
        """The events; no piece is empty."""
        return (Piece(self._plane, events, self._raw.message.timestamp_ns) for events in self._raw.pieces())


class Piece:
    """Some events of a line that follow each other. Times are nanoseconds, all arrays have shape (events,)."""

    def __init__(self, plane: Plane, events: Any, timestamp_ns: int) -> None:
        self._plane, self._events = plane, events
        self.number: NDArray[np.int64] = self._column(event.metadata_id for event in events)
        offset, length = self._column(e.offset_ps for e in events), self._column(e.duration_ps for e in events)
        self.start_ns = timestamp_ns + offset // 1000
        # Rounded down as the begin is, so that events that touch still do.
        self.end_ns = timestamp_ns + (offset + length) // 1000

    def __len__(self) -> int:
        return len(self._events)

    def _column(self, values: Iterable[int]) -> NDArray[np.int64]:
        return np.fromiter(values, dtype=np.int64, count=len(self._events))

    def names(self) -> pl.Series:
        """The name of each event, as categories."""
        distinct, index = np.unique(self.number, return_inverse=True)
        known = [self._plane.event_name(number) or f"(unnamed event {number})" for number in distinct.tolist()]
        return pl.Series(known, dtype=pl.Categorical).gather(index)

    def named(self, matches: Callable[[str], object]) -> Iterator[tuple[int, str]]:
        """Positions and names of the events whose name matches, by name."""
        for number in np.unique(self.number).tolist():
            name = self._plane.event_name(number)
            if name is not None and matches(name):
                yield from ((position, name) for position in np.flatnonzero(self.number == number).tolist())

    def unnamed(self) -> int:
        """How many events have a number without a name."""
        distinct, counts = np.unique(self.number, return_counts=True)
        pairs = zip(distinct.tolist(), counts.tolist(), strict=True)
        return sum(count for number, count in pairs if self._plane.event_name(number) is None)

    def facts(self, *names: str) -> dict[str, dict[int, Any]]:
        """By name of the fact: what it says of each event that has it, by the event's position in the piece.

        Events of one name carry the same facts: only those are looked through whose first, middle or last event has one of them.
        """
        wanted = {number: name for name in names if (number := self._plane.stat_id(name)) is not None}
        found: dict[str, dict[int, Any]] = {name: {} for name in names}
        if not wanted:
            return found
        value = self._plane.value
        for position in self._carriers(wanted):
            for stat in self._events[position].stats:
                if (name := wanted.get(stat.metadata_id)) is not None:
                    found[name][position] = value(stat)
        return found

    def _carriers(self, wanted: dict[int, str]) -> list[int]:
        order = np.argsort(self.number, kind="stable")
        carriers = []
        for group in np.split(order, np.flatnonzero(np.diff(self.number[order])) + 1):
            looks = (group[0], group[len(group) // 2], group[-1])
            if any(stat.metadata_id in wanted for at in looks for stat in self._events[int(at)].stats):
                carriers.append(group)
        return np.concatenate(carriers).tolist() if carriers else []


def text(raw: bytes) -> str:
    """A text of the file; what is no UTF-8 in it is replaced."""
    return raw.decode("utf-8", "replace")
