"""Builds small XPlane files, for tests. Times are given in microseconds after the begin of the line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slowstep.sources._xplane.schema import message_class


class MadePlane:
    """One plane; names of events and facts get their numbers when they are first used."""

    def __init__(self, name: str, **facts: Any) -> None:
        self.message = message_class("XPlane")(name=name.encode())
        self._events: dict[str, int] = {}
        self._stats: dict[str, int] = {}
        for fact, value in facts.items():
            self._set(self.message.stats.add(), fact, value)

    def line(self, name: str, events: Iterable[tuple[Any, ...]], *, line_id: int = 1, timestamp_ns: int = 1000) -> MadePlane:
        """Add a line of events (name, start, end) or (name, start, end, facts)."""
        line = self.message.lines.add(id=line_id, name=name.encode(), timestamp_ns=timestamp_ns)
        for event_name, start, end, *facts in events:
            event = line.events.add(offset_ps=round(start * 1e6), duration_ps=round((end - start) * 1e6))
            event.metadata_id = self._number(self._events, event_name, self.message.event_metadata)
            for fact, value in (facts[0] if facts else {}).items():
                self._set(event.stats.add(), fact, value)
        return self

    def _set(self, stat: Any, name: str, value: Any) -> None:
        stat.metadata_id = self._number(self._stats, name, self.message.stat_metadata)
        if isinstance(value, str):
            # A text that is used often is a reference to a name, as profilers write it.
            stat.ref_value = self._number(self._stats, value, self.message.stat_metadata)
        elif isinstance(value, bytes):
            stat.str_value = value
        elif value < 0:
            stat.int64_value = value
        else:
            stat.uint64_value = value

    @staticmethod
    def _number(known: dict[str, int], name: str, entries: Any) -> int:
        if name not in known:
            known[name] = len(known) + 1
            entry = entries.add(key=known[name])
            entry.value.id, entry.value.name = known[name], name.encode()
        return known[name]


def made_xplane(path: Path, *planes: MadePlane, hosts: Iterable[str] = ()) -> Path:
    """Write a file of these planes."""
    space = message_class("XSpace")(hostnames=[host.encode() for host in hosts])
    for plane in planes:
        space.planes.add().CopyFrom(plane.message)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(space.SerializeToString())
    return path


def host(events: Iterable[tuple[Any, ...]], **more: Any) -> MadePlane:
    """The plane of a host with one thread."""
    return MadePlane("/host:CPU").line("python", events, **more)


def gpu(events: Iterable[tuple[Any, ...]], number: int = 0, stream: int = 13, facts: Mapping[str, Any] | None = None) -> MadePlane:
    """The plane of a GPU with one stream."""
    plane = MadePlane(f"/device:GPU:{number}", **(facts or {"device_vendor": b"Nvidia"}))
    return plane.line(f"Stream #{stream}(Compute)", events, line_id=stream)
