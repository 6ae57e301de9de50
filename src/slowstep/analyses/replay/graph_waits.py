"""What each waiting call of a step waited for, and what a stream waited for on another: edges of the dependency graph.

A trace says which call waits, not always for what. A call that waits for the device waits for all that was launched before it; one for a
stream is taken to wait for the stream that its thread launched on last; one for an event, for the work that ended last before it
returned. What ended only after the call had returned was not awaited. Of a stream it is known that it waits (cudaStreamWaitEvent), not for
which: for the work launched last on each other stream that had ended when the waiting one went on. Without such a call a start right after
the end of another stream's work (`AT_ONCE_NS`) is taken to depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from slowstep.analyses.device.clocks import CLOCKS_NS
from slowstep.analyses.events.enclosing import pieces_of
from slowstep.analyses.replay.replayed_work import DEVICE, EVENT, NOTHING, OWN_COPY, STREAM, Material, ReplayedWork
from slowstep.timeline.intervals import Flags, Ints, RowNumbers

# A kernel that waited for another stream begins one to a few microseconds after its end; unrelated ends lie anywhere.
AT_ONCE_NS: Final = 5_000
# A call that takes this long did not only launch: launches take 2 to 20 microseconds.
LONG_CALL_NS: Final = 50_000
# CUDA's queue takes 1024 launches; then a launch returns when one of them has begun. Far below it a long launch has other reasons.
QUEUE_FULL_FROM: Final = 700


@dataclass(frozen=True, slots=True)
class WaitEdges:
    """Edges from device work to what waits for it: indices into `ReplayedWork` and into `Calls` (returns) or `ReplayedWork` (streams),
    shape (edges,).
    """

    returns_work: Ints
    returns_call: Ints
    streams_work: Ints
    streams_target: Ints
    unexplained: Ints  # waiting calls that took long, and for which nothing was found


class LaunchOrder:
    """The work of each stream in the order of its launch, to be asked what was launched last before an instant."""

    def __init__(self, material: Material) -> None:
        work = material.work
        order = np.lexsort((work.start, work.launched, work.stream))
        cuts = np.searchsorted(work.stream[order], np.arange(material.streams + 1))
        self._by_stream = [order[cuts[n] : cuts[n + 1]] for n in range(material.streams)]
        self._launched = [work.launched[own] for own in self._by_stream]
        self._starts = [np.sort(work.start[own]) for own in self._by_stream]

    def last(self, stream: int, before_ns: int) -> int:
        """Index of the work launched last on a stream before an instant; -1 where there is none."""
        found = int(np.searchsorted(self._launched[stream], before_ns))
        return int(self._by_stream[stream][found - 1]) if found else -1

    def pending(self, stream: int, at_ns: int) -> int:
        """How much was launched on a stream and had not begun."""
        return int(np.searchsorted(self._launched[stream], at_ns) - np.searchsorted(self._starts[stream], at_ns))


def find_waits(material: Material, launched: LaunchOrder, own_calls: RowNumbers, own_work: RowNumbers) -> WaitEdges:
    """The waits of one step, of whose calls and work the indices are given."""
    calls, work = material.calls, material.work
    launching = own_work[work.call[own_work] >= 0]
    of_call = np.full(len(calls.start), -1, dtype=np.int32)
    of_call[work.call[launching]] = launching
    returns: list[tuple[int, int]] = []
    unexplained: list[int] = []
    last_on: dict[int, int] = {}
    for call, own in _each(own_calls, of_call):
        kind = int(calls.waits_for[call])
        found = _awaited(material, launched, call, own, last_on)
        returns += [(n, call) for n in found]
        # An allocation takes long by itself.
        is_wait = kind in (STREAM, EVENT, DEVICE) and not calls.allocates[call]
        if is_wait and not found and calls.end[call] - calls.start[call] > LONG_CALL_NS:
            unexplained.append(call)
        if own >= 0:
            last_on[int(calls.thread[call])] = int(work.stream[own])
    told = _stream_waits(material, launched, own_calls, of_call)
    told += _at_once(work, own_work, {target for _, target in told})
    return WaitEdges(
        *_columns(returns),
        *_columns(told),
        np.array(unexplained, dtype=np.int64),
    )


def _each(own_calls: RowNumbers, of_call: RowNumbers) -> Iterator[tuple[int, int]]:
    """The calls, and what each launched (-1: nothing), as Python numbers some at a time."""
    for rows in pieces_of(len(own_calls)):
        calls = own_calls[rows]
        yield from zip(calls.tolist(), of_call[calls].tolist(), strict=True)


def _awaited(material: Material, launched: LaunchOrder, call: int, own: int, last_on: dict[int, int]) -> list[int]:
    calls, work = material.calls, material.work
    kind, begin, end = int(calls.waits_for[call]), int(calls.start[call]), int(calls.end[call])
    if kind == NOTHING:
        return _of_full_queue(material, launched, call, own)
    if kind == OWN_COPY:
        return [own] if own >= 0 and work.end[own] <= end + CLOCKS_NS else []
    found = [launched.last(stream, begin) for stream in range(material.streams)]
    in_time = [n for n in found if n >= 0 and work.end[n] <= end + CLOCKS_NS]
    if kind == DEVICE:
        # An allocation waits only where it took long; a free that returned before the device was done did not wait.
        waited = end - begin > LONG_CALL_NS or not calls.allocates[call]
        return in_time if waited and len(in_time) == sum(n >= 0 for n in found) else []
    if kind == STREAM:
        stream = last_on.get(int(calls.thread[call]))
        of_stream = launched.last(stream, begin) if stream is not None else -1
        if of_stream in in_time:
            return [of_stream]
    # For an event, as in host time that may be a wait.
    latest = max(in_time, key=lambda n: int(work.end[n]), default=-1)
    return [latest] if latest >= 0 and (work.end[latest] >= end - LONG_CALL_NS or end - begin <= LONG_CALL_NS) else []


def _of_full_queue(material: Material, launched: LaunchOrder, call: int, own: int) -> list[int]:
    """What ended last before a launch returned that had to wait for room in the queue."""
    calls, work = material.calls, material.work
    begin, end = int(calls.start[call]), int(calls.end[call])
    if own < 0 or end - begin <= LONG_CALL_NS or launched.pending(int(work.stream[own]), begin) < QUEUE_FULL_FROM:
        return []
    first = int(np.searchsorted(work.start, end))
    same = np.flatnonzero((work.stream[max(first - 50, 0) : first] == work.stream[own]) & (work.end[max(first - 50, 0) : first] <= end))
    return [max(first - 50, 0) + int(same[-1])] if len(same) else []


def _stream_waits(material: Material, launched: LaunchOrder, own_calls: RowNumbers, of_call: RowNumbers) -> list[tuple[int, int]]:
    """What the next work of a thread waits for that has told its stream to wait."""
    calls, work = material.calls, material.work
    waiting: dict[int, list[int]] = {}
    edges = []
    for call, target in _each(own_calls, of_call):
        thread = int(calls.thread[call])
        if calls.orders_streams[call]:
            waiting.setdefault(thread, []).append(int(calls.start[call]))
        elif target >= 0 and thread in waiting:
            told_at = max(waiting.pop(thread))
            for stream in range(material.streams):
                source = launched.last(stream, told_at) if stream != work.stream[target] else -1
                if source >= 0 and work.end[source] <= work.start[target] + CLOCKS_NS:
                    edges.append((source, target))
    return edges


def _at_once(work: ReplayedWork, own_work: RowNumbers, told: set[int]) -> list[tuple[int, int]]:
    """What began at once after the end of another stream's work, and neither after its launch nor after its own stream's."""
    order = own_work[np.argsort(work.end[own_work], kind="stable")]
    ends = work.end[order]
    edges = []
    for target in _delayed(work, own_work)[0].tolist():
        if target in told:
            continue
        start = int(work.start[target])
        candidates = order[np.searchsorted(ends, start - AT_ONCE_NS) : np.searchsorted(ends, start, side="right")]
        candidates = candidates[(work.stream[candidates] != work.stream[target]) & (work.start[candidates] < start)]
        if len(candidates):
            edges.append((int(candidates[-1]), target))
    return edges


def _delayed(work: ReplayedWork, own_work: RowNumbers) -> tuple[RowNumbers, Flags]:
    """Work that began long after both its launch and the end of what ran before it on its stream."""
    order = own_work[np.lexsort((work.start[own_work], work.stream[own_work]))]
    before = np.full(len(order), np.iinfo(np.int64).min)
    same = work.stream[order[1:]] == work.stream[order[:-1]]
    before[1:][same] = work.end[order[:-1]][same]
    late = work.start[order] - np.maximum(before, work.launched[order]) > 2 * AT_ONCE_NS
    return order[late], late


def _columns(edges: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
