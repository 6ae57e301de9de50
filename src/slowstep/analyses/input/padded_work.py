"""What of forward and backward grows with the length of sequences: by the shapes of what their operations give.

A graph's time is taken for a sum over its operations, its elements and its products with weights, with what each of them costs
(calibration/computing.py); how far those costs may be off widens the share. What has the length where sequences have theirs
(place_layout.py) grows with it; what has it twice, with its square. What is made anew for each place by a loop (a recurrence) has as many
values of one shape as the sequence has places, of weights that are used as often.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.input.place_layout import OFF_BY, Batch, find_layout
from slowstep.calibration import computing

NODE, ELEMENT, PRODUCT = computing.DISPATCH, computing.GIVEN_ELEMENT, computing.WEIGHT_PRODUCT
WEIGHT = computing.LAYING_OUT
# The least of what the dispatch of a node takes, of the same measurements as its usual one.
LEAST_NODE_NS = 7_000.0
# Values of one shape, by the length: at least two are given in each turn of a loop over places.
PER_PLACE = 2
SHORTEST_LOOP = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Exponents:
    """Shares of forward and backward that grow with the length, and with its square."""

    linear: float
    square: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddedWork:
    """As expected, and with the costs of operations by which least and most of it grows."""

    usual: Exponents
    least: Exponents
    most: Exponents


def find_padded_work(shapes: pl.DataFrame, batches: list[tuple[int, Batch]], weights: int) -> PaddedWork | None:
    """By the graphs of passes after batches that were looked at (`batches`, each with when that was): of each the batch fits that most of
    its work grows with. `weights` are the elements of its parameters, of which each gets a gradient however long a sequence is.

    A script may ask for a batch ahead of the one that it trains on, hence the last two before each pass.
    """
    found = []
    for (time_ns, nodes, uses), graph in shapes.group_by("time_ns", "nodes", "uses"):
        before = [batch for at_ns, batch in batches if at_ns <= int(str(time_ns))][-2:]
        rows = list(graph.select("shape", "count", "elements", "products").iter_rows())
        fitting = [_work(rows, int(str(nodes)), weights, batch, None if uses is None else int(str(uses))) for batch in before]
        found += [max(fitting, key=lambda work: _grows(work.usual))] if fitting else []
    if not found:
        return None
    return sorted(found, key=lambda work: _grows(work.usual))[len(found) // 2]


_Row = tuple[list[int], int, int, int]


def _work(graph: list[_Row], nodes: int, weights: int, batch: Batch, uses: int | None) -> PaddedWork:
    layout = find_layout([(tuple(shape), products > 0) for shape, _, _, products in graph], batch)
    turns, power = _turns(graph, batch, uses), np.array([layout.exponent(shape) for shape, *_ in graph])
    if layout.is_fixed:
        turns, power = np.zeros_like(turns), np.zeros_like(power)
    loops = (power == 0) & turns
    sizes = np.array([(count, elements, products) for _, count, elements, products in graph], dtype=np.float64)
    # What is written down are the commonest shapes; the other nodes are there all the same.
    others = max(nodes - float(sizes[:, 0].sum()), 0.0)

    def shares(node_ns: float, element_ns: float, product_ns: float, weight_ns: float) -> Exponents:
        variable = sizes[:, 1] * element_ns + sizes[:, 2] * product_ns
        dispatch = sizes[:, 0] * node_ns
        whole = float((variable + dispatch).sum()) + others * node_ns + weights * weight_ns
        # Dispatching what has a long shape takes as long as what has a short one; in a loop there is less of it.
        grows = variable + np.where(loops, dispatch, 0.0)
        return Exponents(linear=float(grows[loops | (power == 1)].sum()) / whole, square=float(grows[power > 1].sum()) / whole)

    corners = [shares(*costs) for costs in itertools.product(*_bounds())]
    return PaddedWork(
        usual=shares(NODE.value, ELEMENT.value, PRODUCT.value, WEIGHT.value),
        least=min(corners, key=_grows),
        most=max(corners, key=_grows),
    )


def _bounds() -> Iterable[tuple[float, float]]:
    return (LEAST_NODE_NS, NODE.bounds[1]), ELEMENT.bounds, PRODUCT.bounds, WEIGHT.bounds


def _grows(exponents: Exponents) -> float:
    return exponents.linear + exponents.square


def _turns(graph: list[_Row], batch: Batch, uses: int | None) -> NDArray[np.bool_]:
    """Which shapes a loop over places gives: those of as many rows as the batch or, packed, of fewer, and alike in all else.

    Of packed sequences there are as many turns as the longest has places, however long they are made. Where no value is used so often
    (`uses`, None is unknown) many layers are alike.
    """
    is_packed = batch.filled is not None and any(batch.filled in shape and products for shape, _, _, products in graph)
    is_shorter = is_packed and batch.longest < batch.length - OFF_BY
    if batch.length < SHORTEST_LOOP or is_shorter or (uses is not None and uses < batch.length - OFF_BY):
        return np.zeros(len(graph), np.bool_)
    counts: Counter[tuple[int, ...]] = Counter()
    for shape, count, _, _ in graph:
        counts[tuple(shape[1:])] += count if shape and shape[0] <= batch.rows else 0
    return np.array(
        [len(shape) > 1 and shape[0] <= batch.rows and counts[tuple(shape[1:])] >= PER_PLACE * batch.length for shape, *_ in graph]
    )
