"""What the stages of an input pipeline have counted in a window, by their places in the graph.

What is counted are sums: the difference of two readings is what was between them. A stage that is made anew, as for each file, takes its
sums with it, so that of all that stood at its place only a part is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import polars as pl

from slowstep.analyses.input.pipeline_functions import MAP, kinds_of

ROOT: Final = "Root"
# They read a data set for each element of their first input.
_MAKES_DATASETS: Final = ("Interleave", "FlatMap")
# It takes an element of each of its inputs; those that mix take one of any, of which the framework forgets those that have ended. The
# first input of `DirectedInterleave` says of which.
_TAKES_OF_EACH: Final = "Zip"
_DIRECTED: Final = "DirectedInterleave"
_MIXES: Final = ("Concatenate", _DIRECTED)
_SUMS: Final = ("elements", "busy_ns", "bytes")

# From the one that is asked for batches on: of each its name, and which of the last one's inputs it is.
NodePath = tuple[tuple[int, str], ...]
NodeRow = dict[str, Any]
Placed = dict[tuple[NodePath, int], NodeRow]
PlacedReading = tuple[int, Placed]  # and when it was made


@dataclass(slots=True)
class PipelineNode:
    """All stages that stood at a place, in a window; `last` is the last reading of one, `full` are the shares of its buffer that lay ready,
    or of the calls of a map that are made at once.

    `is_replaced` where another one stood there later than at first.
    """

    path: NodePath
    elements: int = 0
    busy_ns: int = 0
    bytes: int = 0
    is_replaced: bool = False
    last: NodeRow = field(default_factory=dict)
    full: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What it does."""
        return self.path[-1][1]

    @property
    def is_inner(self) -> bool:
        """Whether it is of a data set that another stage has made."""
        return any(at and makes_datasets(above[1]) for above, (at, _) in pairwise(self.path))

    def add(self, other: PipelineNode) -> None:
        """Take in what was counted at the same place at another time."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.is_replaced = self.is_replaced or other.is_replaced
        self.last, self.full = other.last, self.full + other.full


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineWindow:
    """What was counted between two readings of one iterator, or of several, which are `ns` apart: each stage, and the batches given.

    `inside` is how many of these batches came in the time that is looked at, where the readings are not both in it by the share of time.
    """

    nodes: dict[NodePath, PipelineNode]
    batches: int
    ns: int
    inside: float


def read_window(rows: pl.DataFrame, low_ns: int, high_ns: int) -> PipelineWindow:
    """Of one iterator, by its readings in the time that is looked at; where less than two are in it, by those around it too."""
    readings = [(int(key[0]), _at_places(group)) for key, group in rows.sort("time_ns", "node").group_by("time_ns", maintain_order=True)]
    readings = _looked_at(readings, low_ns, high_ns)
    nodes: dict[NodePath, PipelineNode] = {}
    for (_, before), (_, after) in pairwise(readings):
        _count(nodes, before, after)
    first_ns, last_ns = (readings[0][0], readings[-1][0]) if readings else (0, 0)
    batches, ns = sum(node.elements for path, node in nodes.items() if len(path) == 1), last_ns - first_ns
    share = (min(last_ns, high_ns) - max(first_ns, low_ns)) / ns if ns else 0.0
    return PipelineWindow(nodes=nodes, batches=batches, ns=ns, inside=batches * share)


def _looked_at(readings: list[PlacedReading], low_ns: int, high_ns: int) -> list[PlacedReading]:
    """Those in the time that is looked at. None where they ended before it, or began later: what was counted is of another time."""
    inside = [reading for reading in readings if low_ns <= reading[0] <= high_ns]
    if len(inside) > 1:
        return inside
    before = [reading for reading in readings if reading[0] < low_ns]
    after = [reading for reading in readings if reading[0] > high_ns]
    around = [*before[-1:], *inside, *after[:1]]
    return around if len(around) > 1 else []


def join_windows(windows: Iterable[PipelineWindow]) -> PipelineWindow:
    """All of them as one."""
    joined: dict[NodePath, PipelineNode] = {}
    batches = ns = 0
    inside = 0.0
    for window in windows:
        batches, ns, inside = batches + window.batches, ns + window.ns, inside + window.inside
        for path, node in window.nodes.items():
            joined.setdefault(path, PipelineNode(path)).add(node)
    return PipelineWindow(nodes=joined, batches=batches, ns=ns, inside=inside)


def _at_places(rows: pl.DataFrame) -> Placed:
    """The stages of one reading, by their place and number; all the data sets that one stage reads at once are at one place."""
    known = {row["node"]: row for row in rows.iter_rows(named=True)}
    found: Placed = {}
    root: NodePath = ((0, ROOT),)
    waiting = [(number, root) for number, row in known.items() if row["name"] == ROOT][:1]
    while waiting:
        number, path = waiting.pop()
        # In a recording that is damaged stages may read each other.
        row = known.pop(number, None)
        if row is not None:
            found[path, number] = row
            makes = makes_datasets(row["name"])
            reads = [(min(at, 1) if makes else at, child) for at, child in enumerate(row["inputs"]) if child in known]
            waiting += [(child, (*path, (at, known[child]["name"]))) for at, child in reads]
    return found


def makes_datasets(name: str) -> bool:
    """Whether a stage makes data sets, and reads those as its second input and the following."""
    return kinds_of(name)[0] in _MAKES_DATASETS


def mixed_inputs(name: str, inputs: list[PipelineNode]) -> list[PipelineNode]:
    """Those inputs of a stage that give its elements together, where each of these is of one of them; none where it takes of all."""
    kind = kinds_of(name)[0]
    if makes_datasets(name) or kind == _TAKES_OF_EACH or (len(inputs) < 2 and kind not in _MIXES):
        return []
    return [node for node in inputs if kind != _DIRECTED or node.path[-1][0]]


def _count(nodes: dict[NodePath, PipelineNode], before: Placed, after: Placed) -> None:
    """What has come from one reading to the next."""
    places = {path for path, _ in before}
    for (path, number), row in after.items():
        old = before.get((path, number))
        # Calls of a map keep as many results. What is counted of others is no share of these: `MapAndBatch` counts batches that it has
        # begun, and `Interleave` the elements of all data sets that it reads, which lie ready out of order while it is waited for.
        size = row["buffer_size"] or (row["parallelism"] if kinds_of(row["name"]) == (MAP,) else None)
        found = PipelineNode(
            path,
            **{name: max(row[name] - (0 if old is None else old[name]), 0) for name in _SUMS},
            is_replaced=old is None and path in places,
            last=row,
            full=[min(row["buffered"] / size, 1.0)] if size else [],
        )
        nodes.setdefault(path, PipelineNode(path)).add(found)
