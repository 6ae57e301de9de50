"""The events of a Kineto file, chunk by chunk: whatever is damaged costs itself, not what stands beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from slowstep.sources._kineto.events import BROKEN, EXACT_BELOW_US, Decode, Events, decode_exact, decode_strict, decode_wide, repaired
from slowstep.sources._kineto.text import EVENTS_KEY, HEADER_BYTES, MARK, SPACE, Scan, find_gap, is_list, nesting_depth, scan

# Longer than any event; what is longer holds a quote or bracket that never closes.
EVENT_BYTES = 4 << 20
_DECIMALS = re.compile(rb'"ts"\s*:\s*\d+\.\d')
# Chunks with unexpected types after which they are expected.
SURPRISES = 3
HandOver = Callable[[bytes, Decode], bool]


def keep(_text: bytes, _decode: Decode) -> bool:
    """Hand nothing over."""
    return False


class EventReader:
    """Iterates over lists of decoded events. `counts` takes what was damaged, by name. `hand_over(text, decode)` may take a list's
    text for another process to decode, and then returns True.

    Afterwards: `found` says whether the text has a list of events at all, `complete` whether it ends where it should, and `around` is the
    text of the object around it, with the events left out.
    """

    def __init__(self, blocks: Iterable[bytes], counts: Counter[str], hand_over: HandOver = keep) -> None:
        self.found = False
        self.complete = False
        self.around = b"{}"
        self._blocks = iter(blocks)
        self._counts = counts
        self._hand_over = hand_over
        self._pending = b""
        self._gap: bytes | None = None
        self._header: bytes | None = None
        self._trailer = b""
        self._decode = decode_strict
        self._time_seen = False
        self._surprises = 0

    def __iter__(self) -> Iterator[Events]:
        self._begin()
        if self.found:
            yield from self._take()
            while self._more():
                yield from self._take()
            yield from () if self.complete else self._last()
        self._end()

    def _more(self) -> bool:
        """Add the next block to the pending text; False where the list or the file has ended."""
        block = b"" if self.complete else next(self._blocks, b"")
        self._pending += block
        return bool(block)

    def _begin(self) -> None:
        """Read up to the first event."""
        for block in self._blocks:
            self._pending += block
            if is_list(self._pending):
                self._pending = self._pending.lstrip(MARK).lstrip(SPACE)[1:]
                self.found = True
                return
            for match in EVENTS_KEY.finditer(self._pending):
                if nesting_depth(self._pending[: match.end()]) == 2:
                    self._header = self._pending[: match.end() - 1].lstrip(MARK)
                    self._pending = self._pending[match.end() :]
                    self.found = True
                    return
            if len(self._pending) > HEADER_BYTES:
                return

    def _end(self) -> None:
        if not self.found:
            self.complete = nesting_depth(self._pending) == 0
        if self._header is None:
            return
        if self.complete:
            # What follows the list was cut like the list itself.
            self._trailer += (self._gap or b"") + self._pending if self._pending else b""
            for block in self._blocks:
                self._trailer += block
                if len(self._trailer) > HEADER_BYTES:
                    break
        self.around = self._header + b"[]" + (self._trailer if self.complete else b"}")
        self.complete = self.complete and nesting_depth(self.around) == 0

    def _take(self) -> Iterator[Events]:
        """Events of the pending text, up to the last place where it can be cut."""
        if self._gap is None:
            self._gap = find_gap(self._pending)
        between = self._between
        cut = self._pending.rfind(between) if between else -1
        if cut >= 0:
            whole = memoryview(self._pending)
            self._pending = self._pending[cut + len(between) - 1 :]
            yield from self._events(whole[: cut + 1])
        elif len(self._pending) > EVENT_BYTES:
            chunk, self._pending = self._pending, b""
            yield from self._by_structure(chunk)

    @property
    def _between(self) -> bytes:
        return b"" if self._gap is None else b"}" + self._gap + b"{"

    def _events(self, chunk: memoryview) -> Iterator[Events]:
        text = b"".join((b"[", chunk, b"]"))
        if self._time_seen and self._hand_over(text, self._decode):
            return
        events = self._decoded(text)
        if events is not None:
            yield events
        elif self._gap and b"\n" in self._gap:
            yield from self._by_text(bytes(chunk))
        else:
            yield from self._by_structure(bytes(chunk))

    def _decoded(self, text: bytes) -> Events | None:
        """All events of the text of a list; None where any of them cannot be decoded."""
        try:
            events = self._decode(text)
            return events if self._time_seen else self._with_time(text, events)
        except msgspec.ValidationError:
            return self._widely(text)
        except BROKEN:
            return None

    def _widely(self, text: bytes) -> Events | None:
        """Decode what is JSON, but has other types than expected; from the third time on, all text at once so."""
        try:
            events = decode_wide(text)
        except BROKEN:
            return None
        self._surprises += 1
        if self._surprises >= SURPRISES and self._decode is decode_strict:
            self._decode = decode_wide
        return events

    def _with_time(self, text: bytes, events: Events) -> Events:
        """Keep timestamps as text from here on, where a float cannot hold them."""
        # What was decoded widely may hold anything.
        times = [event.ts for event in events if event.ph == "X" and isinstance(event.ts, (int, float)) and event.ts == event.ts]
        self._time_seen = bool(times)
        if times and max(times) >= EXACT_BELOW_US and _DECIMALS.search(text):
            self._decode = decode_exact
            return decode_exact(text)
        return events

    def _by_text(self, chunk: bytes) -> Iterator[Events]:
        """Cut at every gap: a line feed cannot stand in a string, so that a damaged event cannot take others with it."""
        assert self._gap is not None
        pieces = chunk.split(self._between)
        pieces = [(b"{" if i else b"") + piece + (b"}" if i < len(pieces) - 1 else b"") for i, piece in enumerate(pieces)]
        yield from self._in_halves(pieces)

    def _by_structure(self, chunk: bytes) -> Iterator[Events]:
        found = scan(chunk)
        yield from self._scanned(chunk, found)
        if self.complete or found.rest is None:
            return
        rest = chunk[found.rest :]
        if len(rest) > EVENT_BYTES and self._gap is not None:
            yield from self._by_text(rest)
        elif len(rest) > EVENT_BYTES:
            self._counts["malformed"] += 1
            self._pending = self._pending[1:]
        else:
            self._pending = rest + (self._gap or b"") + self._pending

    def _scanned(self, text: bytes, found: Scan) -> Iterator[Events]:
        """The whole events of a text, and the end of the list where it has one."""
        yield from self._in_halves([text[start:end] for start, end in found.spans])
        bounds = [0, *(bound for span in found.spans for bound in span)]
        stops = [*(start for start, _ in found.spans), found.list_end]
        for at, stop in zip(bounds[::2], stops, strict=False):
            if stop is not None and text[at:stop].strip(SPACE + b","):
                self._counts["malformed"] += 1
        if found.list_end is not None and text[found.list_end : found.list_end + 1] == b"]":
            self.complete = True
            self._trailer = text[found.list_end + 1 :]

    def _in_halves(self, pieces: list[bytes]) -> Iterator[Events]:
        """Decode together what can be; divide what cannot, down to the single damaged event."""
        waiting = [pieces] if pieces else []
        while waiting and not self.complete:
            group = waiting.pop()
            text = b"[%b]" % b",".join(group)
            events = self._decoded(text)
            if events is None:
                events = self._mended(text)
            if events is not None:
                yield events
            elif len(group) > 1:
                middle = len(group) // 2
                waiting += [group[middle:], group[:middle]]
            else:
                yield from self._damaged(group[0])
        if self.complete and waiting:
            left = [piece for group in reversed(waiting) for piece in group]
            self._trailer += (self._gap or b"").join([b"", *left])

    def _mended(self, text: bytes) -> Events | None:
        mended, places = repaired(text)
        events = self._decoded(mended) if mended != text else None
        if events is not None:
            self._counts["repaired"] += max(places, 1)
        return events

    def _damaged(self, piece: bytes) -> Iterator[Events]:
        """One piece that is no event: the last one with what follows the list, several with something else between them, or lost."""
        found = scan(piece)
        ends = found.list_end is not None and piece[found.list_end : found.list_end + 1] == b"]"
        if ends or len(found.spans) > 1:
            yield from self._scanned(piece, found)
        else:
            self._counts["malformed"] += 1

    def _last(self) -> Iterator[Events]:
        """What is left where the file ends: the last event, the end of the list and what follows it; or an event that was cut off."""
        text, self._pending = self._pending, b""
        found = scan(text)
        if found.list_end is None and self._between and self._between in text:
            cut = text.rfind(self._between)
            yield from self._by_text(text[: cut + 1])
            text = text[cut + len(self._between) - 1 :]
            if self.complete:
                self._pending = text
                return
            found = scan(text)
        yield from self._scanned(text, found)


def metadata(around: bytes, counts: Counter[str]) -> dict[str, Any]:
    """The object around the events, without them; as much of it as can be decoded."""
    before = around[: around.rfind(b"[]") + 2] + b"}"
    for text in (around, repaired(around)[0], before, repaired(before)[0]):
        try:
            found = msgspec.json.decode(text)
        except BROKEN:
            continue
        if text is not around:
            counts["metadata"] += 1
        return found if isinstance(found, dict) else {}
    counts["metadata"] += 1
    return {}
