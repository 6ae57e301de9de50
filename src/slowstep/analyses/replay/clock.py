"""Replays a step's graph under several variants at once: when each node then happens, and how long a step then takes.

A step is replayed several times in a row, each time beginning with what the one before left on host and streams: a host that runs ahead
hides in the second replay what it could not in the first. The length is that of the last one, from the end of all work of the one before
to the end of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.replay.graph import CHAIN, MAYBE_RETURN, Graph, unexplained_delay, unexplained_residual
from slowstep.analyses.steps.steps import Floats

Matrix = NDArray[np.float64]
# The first begins with what was observed; by the third, what a host that runs ahead can hide is hidden.
ROUNDS = 3
# Nodes whose rows are Python objects at one time.
NODES_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True)
class Variant:
    """One way in which the step could have gone: the delay of each edge (-inf: it is gone), the duration and residual of each node.

    `at_least` is what a step takes at least for a resource that the graph does not hold, as a link that copies share.
    """

    delay: Floats
    duration: Floats
    residual: Floats
    at_least: float = 0.0


def unchanged(graph: Graph) -> Variant:
    """The step as it was."""
    return Variant(graph.delay, graph.duration, graph.residual)


def explaining(graph: Graph) -> Callable[[Variant], Variant]:
    """What takes the delays that no dependency explains out of a variant, and takes what may be waits for waits."""
    residual, delay = unexplained_residual(graph), unexplained_delay(graph)
    maybe = graph.kind == MAYBE_RETURN
    waits = np.zeros(graph.nodes, dtype=np.bool_)
    waits[graph.target[maybe]] = True
    at_most = np.where(delay > 0, graph.delay - delay, np.inf)
    at_most[waits[graph.target] & (graph.kind == CHAIN)] = graph.own_call
    lag = (graph.observed[graph.target] - graph.observed[graph.source])[maybe]

    def without(variant: Variant) -> Variant:
        own = np.where(residual > 0, np.minimum(variant.residual, graph.residual - residual), variant.residual)
        left = np.minimum(variant.delay, at_most)
        left[maybe] = lag
        return Variant(left, variant.duration, own, variant.at_least)

    return without


def node_times(graph: Graph, variants: list[Variant]) -> Matrix:
    """When each node happens, shape (nodes, variants), ns since the host began the step; it begins as observed."""
    entry = np.repeat(graph.observed[: _fixed(graph), None], len(variants), axis=1)
    return _once(graph, entry, *_columns(variants))


def step_lengths(graph: Graph, variants: list[Variant]) -> Floats:
    """Length of the step in each variant, ns, shape (variants,)."""
    delay, own = _columns(variants)
    fixed = _fixed(graph)
    entry = np.repeat(graph.observed[:fixed, None], len(variants), axis=1)
    done = np.full(len(variants), graph.begin)
    length = np.zeros(len(variants))
    ends = np.append(graph.last_of_stream, graph.host_exit)
    for _ in range(ROUNDS):
        times = _once(graph, entry, delay, own)
        end = times[ends].max(axis=0)
        length, done = end - done, end
        entry = np.concatenate((times[graph.host_exit][None], times[graph.last_of_stream]))
    at_least = np.array([variant.at_least for variant in variants])
    return np.asarray(np.maximum(length, at_least))


def _once(graph: Graph, entry: Matrix, delay: Matrix, own: Matrix) -> Matrix:
    """One longest-path pass over the nodes in order; all variants at once, which costs hardly more than one."""
    times = np.empty((graph.nodes, entry.shape[1]))
    times[: len(entry)] = entry
    spare = np.empty(entry.shape[1])
    for first in range(len(entry), graph.nodes, NODES_AT_ONCE):
        _stretch(graph, times, delay, own, range(first, min(first + NODES_AT_ONCE, graph.nodes)), spare)
    return times


def _stretch(graph: Graph, times: Matrix, delay: Matrix, own: Matrix, nodes: range, spare: Floats) -> None:
    """Successive nodes of a pass, into `times`. Rows of matrices are objects here, many times as large as their numbers."""
    edges = slice(int(graph.first[nodes.start]), int(graph.first[nodes.stop]))
    first = (graph.first[nodes.start : nodes.stop + 1] - edges.start).tolist()
    sources, delays = graph.source[edges].tolist(), list(delay[edges])
    rows, owns = list(times[nodes.start : nodes.stop]), list(own[nodes.start : nodes.stop])
    moves: list[bool] = np.any(own[nodes.start : nodes.stop] != 0.0, axis=1).tolist()
    add, maximum = np.add, np.maximum
    for at, row in enumerate(rows):
        begin, end = first[at], first[at + 1]
        add(times[sources[begin]], delays[begin], out=row)
        for edge in range(begin + 1, end):
            maximum(row, add(times[sources[edge]], delays[edge], out=spare), out=row)
        if moves[at]:
            add(row, owns[at], out=row)


def _columns(variants: list[Variant]) -> tuple[Matrix, Matrix]:
    delay = np.stack([variant.delay for variant in variants], axis=1)
    own = np.stack([variant.duration + variant.residual for variant in variants], axis=1)
    return delay, own


def _fixed(graph: Graph) -> int:
    return 1 + len(graph.last_of_stream)
