"""One step as its dependency graph: instants of host threads and ends of device work, and what each has to wait for.

Each node's time is the latest of (a node that it waits for + a delay), plus its own residual, plus, of device work, its duration. Delays
of host threads are what they did in between. Of launches, of one kernel following another and of calls that return they are the step's
usual ones, or the observed one where that is shorter. What then is still missing to the observed time is the node's residual: a delay that
no dependency explains, kept as a fixed one. So the graph replayed unchanged gives each node's observed time, exactly.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.device.clocks import CLOCKS_NS, LAUNCH_AT_MOST_NS
from slowstep.analyses.replay.graph_waits import LONG_CALL_NS, LaunchOrder, WaitEdges, find_waits
from slowstep.analyses.replay.replayed_work import MAYBE, Material
from slowstep.analyses.steps.steps import Floats
from slowstep.timeline.intervals import Flags, Ints

# Kinds of edges: what a host thread does in between; a launch; work of a stream in order; a stream waiting for another; a call's return
# when what it awaits is done; what has no known cause, at its observed distance from the step's begin; what may be a wait, and is not taken
# for one (its delay is -inf).
CHAIN, LAUNCH, FOLLOWS, ACROSS, RETURN, ANCHOR, MAYBE_RETURN = range(7)
# Usual delays where a step shows none of the kind: a launch takes some 5 us to reach an idle device, a queued kernel follows within 1.5.
LAUNCH_NS: Final = 5_000.0
FOLLOWS_NS: Final = 1_500.0
RETURN_NS: Final = 10_000.0
CALL_NS: Final = 5_000.0
# What is longer than this, or than LAUNCH_AT_MOST_NS of a launch, is not usual, however often a step has it.
FOLLOWS_AT_MOST_NS: Final = 10_000.0
# Residuals up to this length are the scatter of the usual delays, not unknown causes.
SCATTER_NS: Final = 10_000


# Numbers of nodes, calls and work; a step that is a whole trace has a million.
Indices = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Graph:
    """A step's graph; times are ns since the host began the step. Nodes: 0 is that begin, then one for each stream (what ran on it before),
    then all others, each after what it waits for. Edges are sorted by target; those of node n are `first[n]` to `first[n + 1]`.
    """

    source: Indices
    target: Indices
    first: Indices
    kind: NDArray[np.int8]
    delay: Floats
    duration: Floats  # of device work; 0 for instants of the host
    residual: Floats
    observed: Floats
    work: Indices  # index into the material's work, -1 for others, by node
    call: Indices  # index of the call that begins or returns at this instant, -1 for others, by node
    returns: Flags  # the instant is the call's return
    on_main: Flags  # an instant of the main logical thread
    last_of_stream: Ints  # node; the stream's own first node where the step has no work on it
    host_exit: int
    begin: float  # of the step: host and device are done with the one before
    own_call: float  # what a waiting call takes that need not wait
    unexplained: Ints  # nodes at which calls return that waited for what is not known
    early: Ints  # nodes of work that begins before its launch: nothing says what it waited for

    @property
    def nodes(self) -> int:
        return len(self.observed)

    @property
    def end(self) -> float:
        """When host and device are done with the step, as observed."""
        return float(max(self.observed[self.host_exit], self.observed[self.last_of_stream].max(initial=-np.inf)))


@dataclass(frozen=True, slots=True)
class _Points:
    """Instants of one logical host thread, in order."""

    time: Ints
    call: Indices
    returns: Flags


def build_graph(material: Material, launched: LaunchOrder, begin_ns: int, end_ns: int) -> Graph:
    """The graph of the step whose host time is begin_ns to end_ns."""
    calls, work = material.calls, material.work
    own_calls = np.arange(*np.searchsorted(calls.start, [begin_ns, end_ns]), dtype=np.int32)
    own_work = np.flatnonzero((work.launched >= begin_ns) & (work.launched < end_ns)).astype(np.int32)
    waits = find_waits(material, launched, own_calls, own_work)
    return _Builder(material, begin_ns, end_ns, own_calls, own_work, waits).graph()


class _Builder:
    def __init__(self, material: Material, begin_ns: int, end_ns: int, own_calls: Indices, own_work: Indices, waits: WaitEdges) -> None:
        self.material, self.begin_ns, self.end_ns = material, begin_ns, end_ns
        self.own_calls, self.own_work, self.waits = own_calls, own_work, waits
        self.edges: list[tuple[Indices, Indices, NDArray[np.int8], Floats]] = []
        self._place()

    def _place(self) -> None:
        """Number the nodes: host instants and work in the order of their time, instants first."""
        chains = self._chains()
        times = np.concatenate([chain.time for chain in chains])
        work = self.material.work
        key = np.concatenate((times, self._in_time()))
        # A stable sort: instants come before work.
        order = np.argsort(key, kind="stable")
        number = np.empty(len(key), dtype=np.int32)
        before = 1 + self.material.streams
        number[order] = before + np.arange(len(key))
        cuts = np.cumsum([0] + [len(chain.time) for chain in chains])
        self.chains, self.chain_nodes = chains, [number[a:b] for a, b in itertools.pairwise(cuts)]
        self.work_nodes = number[len(times) :]
        self.nodes = before + len(key)
        self.node_of_work = np.full(len(work.start), -1, dtype=np.int32)
        self.node_of_work[self.own_work] = self.work_nodes

    def _in_time(self) -> Ints:
        """When each work began, but not before a launch that it precedes by no more than clocks err, nor before its stream's last work."""
        work, own = self.material.work, self.own_work
        sent = np.where(work.call[own] >= 0, self.material.calls.start[work.call[own]], work.start[own])
        start = np.where(sent - work.start[own] <= CLOCKS_NS, np.maximum(sent, work.start[own]), work.start[own])
        order = np.lexsort((work.start[own], work.stream[own]))
        for stretch in np.split(order, np.flatnonzero(np.diff(work.stream[own][order])) + 1):
            start[stretch] = np.maximum.accumulate(start[stretch])
        return start

    def _chains(self) -> list[_Points]:
        """The main logical thread, which ends where the step's host time does, and each thread that goes on beside it."""
        calls, own = self.material.calls, self.own_calls
        main = np.isin(calls.thread[own], list(self.material.turns))
        chains = [self._points(own[main], exit_ns=self.end_ns)]
        others = np.unique(calls.thread[own[~main]]).tolist()
        return chains + [self._points(own[(calls.thread[own] == thread) & ~main], exit_ns=None) for thread in others]

    def _points(self, own: Indices, exit_ns: int | None) -> _Points:
        calls = self.material.calls
        back = own[np.isin(own, np.concatenate((self.waits.returns_call, self.waits.unexplained)))]
        back = back[calls.end[back] <= self.end_ns]
        time = np.concatenate((calls.start[own], calls.end[back]))
        call, returns = np.concatenate((own, back)), np.arange(len(time)) >= len(own)
        # Where one call returns at the instant at which the next begins, as times in whole microseconds often say, the return comes first.
        turn = np.where(~returns, 1, np.where(calls.start[call] < time, 0, 2))
        order = np.lexsort((turn, time))
        time, call, returns = time[order], call[order], returns[order]
        if exit_ns is not None:
            time, call, returns = np.append(time, exit_ns), np.append(call, np.int32(-1)), np.append(returns, False)
        return _Points(time, call, returns)

    def graph(self) -> Graph:
        self._describe_nodes()
        self._usual()
        for chain, nodes in zip(self.chains, self.chain_nodes, strict=True):
            self._chain_edges(chain, nodes)
        self._stream_edges()
        self._launch_edges()
        self._across_edges()
        self._return_edges()
        self._anchor()
        return self._finish()

    def _describe_nodes(self) -> None:
        work, streams = self.material.work, self.material.streams
        self.observed, self.duration = np.zeros(self.nodes), np.zeros(self.nodes)
        self.work, self.call = np.full(self.nodes, -1, dtype=np.int32), np.full(self.nodes, -1, dtype=np.int32)
        self.returns, self.on_main = np.zeros(self.nodes, dtype=np.bool_), np.zeros(self.nodes, dtype=np.bool_)
        for chain, nodes in zip(self.chains, self.chain_nodes, strict=True):
            self.observed[nodes], self.call[nodes], self.returns[nodes] = chain.time - self.begin_ns, chain.call, chain.returns
        self.on_main[0], self.on_main[self.chain_nodes[0]] = True, True
        self.observed[self.work_nodes] = work.end[self.own_work] - self.begin_ns
        self.duration[self.work_nodes] = (work.end - work.start)[self.own_work]
        self.work[self.work_nodes] = self.own_work
        self.observed[1 : 1 + streams] = self._left_over()

    def _left_over(self) -> Floats:
        """When each stream was done with what was launched before the step; long ago where there was nothing."""
        work, done = self.material.work, np.full(self.material.streams, -1e12)
        earlier = np.flatnonzero((work.launched < self.begin_ns) & (self.node_of_work < 0))
        np.maximum.at(done, work.stream[earlier], work.end[earlier].astype(np.float64) - self.begin_ns)
        return done

    def _stream_edges(self) -> None:
        self._add(self.before, self.work_nodes, FOLLOWS, self.follows_ns)

    def _usual(self) -> None:
        """What comes before each work on its stream, and the usual delays of this step."""
        work, own = self.material.work, self.own_work
        order = np.lexsort((work.start[own], work.stream[own]))
        self.before = np.empty(len(own), dtype=np.int32)
        streams = work.stream[own][order]
        previous = np.append(-1, self.work_nodes[order][:-1])
        opens = np.append(True, streams[1:] != streams[:-1]) if len(order) else np.zeros(0, dtype=np.bool_)
        self.before[order] = np.where(opens, 1 + streams, previous)
        closes = np.append(opens[1:], True) if len(order) else opens
        self.last_of_stream = 1 + np.arange(self.material.streams)
        self.last_of_stream[streams[closes]] = self.work_nodes[order][closes]
        start, free = work.start[own] - self.begin_ns, self.observed[self.before]
        sent = work.launched[own] - self.begin_ns
        known = work.call[own] >= 0
        self.launch_ns = min(_median((start - sent)[known & (free <= sent)], LAUNCH_NS), LAUNCH_AT_MOST_NS)
        alone = ~np.isin(own, self.waits.streams_target)
        queued = known & (sent + self.launch_ns < free) & (start >= free) & alone
        self.follows_ns = min(_median((start - free)[queued], FOLLOWS_NS), FOLLOWS_AT_MOST_NS)
        calls, surely = self.material.calls, ~self._maybe()
        awaited, returning = self.waits.returns_work[surely], self.waits.returns_call[surely]
        lag = (calls.end[returning] - work.end[awaited]).astype(np.float64)
        waited = work.end[awaited] > calls.start[returning]
        self.return_ns = _median(lag[waited & (lag <= LONG_CALL_NS)], RETURN_NS)
        # What an allocation takes itself says nothing of a call that only waits.
        took = (calls.end - calls.start)[returning[~waited & ~calls.allocates[returning]]].astype(np.float64)
        self.own_call_ns = _median(took, CALL_NS)
        # By call, how long it went on after all that it awaited was done: of an allocation that is its own work.
        self.allocating_ns = (calls.end - calls.start).astype(np.float64)
        np.minimum.at(self.allocating_ns, returning, lag)

    def _chain_edges(self, chain: _Points, nodes: Indices) -> None:
        if not len(nodes):
            return
        own = np.diff(chain.time, prepend=self.begin_ns).astype(np.float64)
        # A call that waited did so from its begin on: what it takes itself is little, but for an allocation.
        at_own_return = chain.returns & (chain.call == np.append(-1, chain.call[:-1]))
        waited = np.flatnonzero(at_own_return & np.isin(chain.call, self._waited()))
        call = chain.call[waited]
        own[waited] = np.minimum(own[waited], np.where(self.material.calls.allocates[call], self.allocating_ns[call], self.own_call_ns))
        self._add(np.append(0, nodes[:-1]), nodes, CHAIN, own)

    def _waited(self) -> Ints:
        """Calls that began before what they awaited had ended."""
        calls, work, waits = self.material.calls, self.material.work, self.waits
        return waits.returns_call[(work.end[waits.returns_work] > calls.start[waits.returns_call]) & ~self._maybe()]

    def _maybe(self) -> Flags:
        """Of the calls that return, which only may have waited."""
        return np.asarray(self.material.calls.waits_for[self.waits.returns_call] == MAYBE)

    def _launch_edges(self) -> None:
        call_nodes = np.flatnonzero((self.call >= 0) & ~self.returns)
        # The last place is for work whose call is not known, -1.
        node_of = np.full(len(self.material.calls.start) + 1, -1, dtype=np.int32)
        node_of[self.call[call_nodes]] = call_nodes
        call = self.material.work.call[self.own_work]
        source = node_of[call]
        self._add(source[source >= 0], self.work_nodes[source >= 0], LAUNCH, self.launch_ns)
        # A launch that a later step makes is none of this step's nodes.
        self.early = self.work_nodes[(call >= 0) & ((source < 0) | (source >= self.work_nodes))].astype(np.int64)

    def _across_edges(self) -> None:
        self._add(self._nodes_of(self.waits.streams_work), self.node_of_work[self.waits.streams_target], ACROSS, self.follows_ns)

    def _return_edges(self) -> None:
        back = np.flatnonzero(self.returns)
        node_of = dict(zip(self.call[back].tolist(), back.tolist(), strict=True))
        target = np.array([node_of.get(n, -1) for n in self.waits.returns_call.tolist()], dtype=np.int64)
        call = self.waits.returns_call
        usual_ns = np.where(self.material.calls.allocates[call], self.allocating_ns[call], self.return_ns)
        for kind, own, delay_ns in ((RETURN, ~self._maybe(), usual_ns), (MAYBE_RETURN, self._maybe(), np.full(len(call), -np.inf))):
            found = own & (target >= 0)
            self._add(self._nodes_of(self.waits.returns_work)[found], target[found], kind, delay_ns[found])
        self.unexplained = np.array([node_of[n] for n in self.waits.unexplained.tolist() if n in node_of], dtype=np.int64)

    def _nodes_of(self, work: Ints) -> Ints:
        """The nodes of work; for what an earlier step launched the node of its stream."""
        found = self.node_of_work[work]
        return np.where(found >= 0, found, 1 + self.material.work.stream[work])

    def _anchor(self) -> None:
        """Hold what nothing else holds at its observed distance from the begin: work whose launch is not in the trace."""
        fixed = 1 + self.material.streams
        held = np.zeros(self.nodes, dtype=np.bool_)
        for source, target, kind, _ in self.edges:
            held[target[(kind != FOLLOWS) | (source >= fixed)]] = True
        loose = fixed + np.flatnonzero(~held[fixed:])
        self._add(np.zeros(len(loose), dtype=np.int64), loose, ANCHOR, (self.observed - self.duration)[loose])

    def _add(self, source: Ints | Indices, target: Ints | Indices, kind: int, delay: float | Floats) -> None:
        delays = np.broadcast_to(np.asarray(delay, dtype=np.float64), len(target))
        # Times of a broken trace may contradict an edge: then it is none.
        fits = (source >= 0) & (source < target)
        kinds = np.full(int(fits.sum()), kind, dtype=np.int8)
        self.edges.append((source[fits].astype(np.int32, copy=False), target[fits].astype(np.int32, copy=False), kinds, delays[fits]))

    def _sorted_edges(self) -> tuple[Indices, Indices, NDArray[np.int8], Floats]:
        """All edges by target. Each column goes as soon as it is sorted: a step that is a whole trace has a million edges."""
        columns: list[list[NDArray[Any]]] = [list(column) for column in zip(*self.edges, strict=True)]
        self.edges = []
        order = np.argsort(np.concatenate(columns[1]), kind="stable").astype(np.int32)
        found: list[NDArray[Any]] = []
        for column in columns:
            found.append(np.concatenate(column)[order])
            column.clear()
        source, target, kind, delay = found
        return source, target, kind, delay

    def _finish(self) -> Graph:
        host_exit = int(self.chain_nodes[0][-1])
        # What only the edges were made of makes room for them.
        del self.chains, self.chain_nodes, self.work_nodes, self.before, self.node_of_work
        source, target, kind, delay = self._sorted_edges()
        first = np.append(0, np.cumsum(np.bincount(target, minlength=self.nodes))).astype(np.int32)
        fixed = 1 + self.material.streams
        residual = self._residual(source, target, delay, first[fixed:-1], fixed)
        done = float(self.observed[1:fixed].max(initial=-np.inf))
        return Graph(
            source=source,
            target=target,
            first=first,
            kind=kind,
            delay=delay,
            duration=self.duration,
            residual=residual,
            observed=self.observed,
            work=self.work,
            call=self.call,
            returns=self.returns,
            on_main=self.on_main,
            last_of_stream=self.last_of_stream,
            host_exit=host_exit,
            begin=max(0.0, done),
            own_call=self.own_call_ns,
            unexplained=self.unexplained,
            early=self.early,
        )

    def _residual(self, source: Indices, target: Indices, delay: Floats, first: Indices, fixed: int) -> Floats:
        """How much later each node but the `fixed` opened than what it waits for had reached it, of which `first` is each one's first edge.
        Delays that are longer than was observed are cut to that, in place.
        """
        opening = self.observed - self.duration
        reached = self.observed[source]
        at_most = opening[target]
        at_most -= reached
        np.minimum(delay, at_most, out=delay)
        del at_most
        reached += delay
        residual = np.zeros(self.nodes)
        if self.nodes > fixed:
            residual[fixed:] = opening[fixed:] - np.maximum.reduceat(reached, first)
        return residual


def residual_ns(graph: Graph) -> float:
    """Delays along the step's critical path that no dependency explains: what stands in none of the usual delays' scatter."""
    reached, residual, waits = graph.observed[graph.source] + graph.delay, unexplained_residual(graph), unexplained_delay(graph)
    total = 0.0
    done = np.append(graph.last_of_stream, graph.host_exit)
    node = int(done[np.argmax(graph.observed[done])])
    while graph.first[node] < graph.first[node + 1]:
        edges = slice(int(graph.first[node]), int(graph.first[node + 1]))
        edge = edges.start + int(np.argmax(reached[edges]))
        if graph.observed[node] <= graph.begin:
            break
        total += float(residual[node] + waits[edge])
        node = int(graph.source[edge])
    return total


def unexplained_residual(graph: Graph) -> Floats:
    """By node, what of its residual is no scatter of the usual delays; all of it where the launch is contradicted. Shape (nodes,)."""
    counts = graph.residual > SCATTER_NS
    counts[graph.early] = True
    return np.where(counts, np.maximum(graph.residual, 0.0), 0.0)


def unexplained_delay(graph: Graph) -> Floats:
    """By edge, what nothing explains of its delay: of waits for unknown things, and of work that is held at its time. Shape (edges,)."""
    waits = np.zeros(graph.nodes, dtype=np.bool_)
    waits[graph.unexplained] = True
    waiting = np.where(waits[graph.target], np.maximum(graph.delay - graph.own_call, 0.0), 0.0)
    held = (graph.kind == ANCHOR) & (graph.work[graph.target] >= 0)
    return waiting + np.where(held, np.maximum(graph.delay, 0.0), 0.0)


def _median(values: NDArray[np.float64] | Ints, otherwise: float) -> float:
    return float(np.median(values)) if len(values) else otherwise
