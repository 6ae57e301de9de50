"""What of forward and backward grows with the length of sequences: by the shapes of what their operations give.

A graph's time is taken for a sum over its operations, its elements and its products with weights, with what each of them costs
(calibration.py); how far those costs may be off widens the share. What has the length among its dimensions, or sequences times length,
grows with it; what has it twice, with its square. What is made anew for each place by a loop (a recurrence) has as many values of one shape
as the sequence has places.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep import calibration

NODE, ELEMENT, PRODUCT = calibration.DISPATCH, calibration.GIVEN_ELEMENT, calibration.WEIGHT_PRODUCT
WEIGHT = calibration.LAYING_OUT
# The least of what the dispatch of a node takes, of the same measurements as its usual one.
LEAST_NODE_NS = 7_000.0
# Labels that are shifted, tokens that are put before the sequence.
OFF_BY = 1
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


def find_padded_work(shapes: pl.DataFrame, looks: pl.DataFrame, weights: int) -> PaddedWork | None:
    """By the graphs of passes after batches that were looked at: of each the batch fits that most of its work grows with.

    `weights` are the elements of its parameters, of which each gets a gradient however long a sequence is.

    A script may ask for a batch ahead of the one that it trains on, hence the last two before each pass.
    """
    found = []
    for (time_ns, nodes), graph in shapes.group_by("time_ns", "nodes"):
        before = looks.filter(pl.col("time_ns") <= time_ns).tail(2)
        rows = list(graph.select("shape", "count", "elements", "products").iter_rows())
        fitting = [_work(rows, int(str(nodes)), weights, *sizes) for sizes in before.select("rows", "length").iter_rows()]
        found += [max(fitting, key=lambda work: work.usual.linear + work.usual.square)] if fitting else []
    if not found:
        return None
    return sorted(found, key=lambda work: work.usual.linear + work.usual.square)[len(found) // 2]


_Row = tuple[list[int], int, int, int]


def _work(graph: list[_Row], nodes: int, weights: int, rows: int, length: int) -> PaddedWork:
    exponents = [_exponent(shape, count, rows, length) for shape, count, _, _ in graph]
    sizes = np.array([(count, elements, products) for _, count, elements, products in graph], dtype=np.float64)
    # What is written down are the commonest shapes; the other nodes are there all the same.
    others = max(nodes - float(sizes[:, 0].sum()), 0.0)
    loops = np.array([shape == _LOOP for shape in exponents])
    power = np.array([1 if shape == _LOOP else shape for shape in exponents])

    def shares(node_ns: float, element_ns: float, product_ns: float, weight_ns: float) -> Exponents:
        variable = sizes[:, 1] * element_ns + sizes[:, 2] * product_ns
        dispatch = sizes[:, 0] * node_ns
        whole = float((variable + dispatch).sum()) + others * node_ns + weights * weight_ns
        # Dispatching what has a long shape takes as long as what has a short one; in a loop there is less of it.
        grows = variable + np.where(loops, dispatch, 0.0)
        return Exponents(linear=float(grows[power == 1].sum()) / whole, square=float(grows[power > 1].sum()) / whole)

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


_LOOP = -1


def _exponent(shape: list[int], count: int, rows: int, length: int) -> int:
    """How often the length is among the dimensions, or _LOOP of what a loop over places gives.

    Two dimensions of which one is as long may be samples and features: of those only all places of all sequences count.
    """
    near = range(length - OFF_BY, length + OFF_BY + 1)
    times = sum(each in near for each in shape) if len(shape) > 2 else 0
    if not times and any(each % rows == 0 and _is_multiple(each // rows, near) for each in shape if each >= rows * near[0] > 0):
        times = 1
    if not times and length >= SHORTEST_LOOP and count >= PER_PLACE * length:
        return _LOOP
    return min(times, 2)


def _is_multiple(each: int, near: range) -> bool:
    """Of all places once, or once for each head."""
    return each in near or (each >= near.stop and each % near[OFF_BY] == 0)
