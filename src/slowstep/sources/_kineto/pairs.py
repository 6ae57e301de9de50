"""Events that other tools write as a begin and an end (`ph` B and E) become complete ones (X)."""

from __future__ import annotations

from typing import Any

from slowstep.sources._kineto.numbers import times_of


class Pairs:
    """The begins that have no end yet, by thread. Of one thread they come in order of time, and end in the reverse of it (Google's Trace
    Event Format, "Duration events").
    """

    def __init__(self) -> None:
        self._open: dict[tuple[Any, Any], list[Any]] = {}
        self.ends_alone = 0

    @property
    def begins_alone(self) -> int:
        """Begins that no end has followed."""
        return sum(map(len, self._open.values()))

    def complete(self, events: list[Any]) -> list[Any]:
        """The events of a chunk, with a complete event for each end whose begin came before, and without begins and other ends."""
        if not any(event.ph in ("B", "E") for event in events):
            return events
        kept, begins, ends = [], [], []
        for event in events:
            if event.ph == "B":
                self._open.setdefault((event.pid, event.tid), []).append(event)
            elif event.ph != "E":
                kept.append(event)
            elif waiting := self._open.get((event.pid, event.tid)):
                begins.append(waiting.pop())
                ends.append(event)
            else:
                self.ends_alone += 1
        self._close(begins, ends)
        return kept + begins

    def _close(self, begins: list[Any], ends: list[Any]) -> None:
        start_ns, started = times_of(begins)
        end_ns, ended = times_of(ends)
        lengths_us = (end_ns - start_ns) / 1000
        for event, length_us, known in zip(begins, lengths_us.tolist(), (started & ended).tolist(), strict=True):
            event.ph, event.dur = "X", length_us if known else None
