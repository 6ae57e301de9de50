"""Of which shapes the values are that the operations of a graph gave, how much was multiplied for them, and how often one value is used:
what grows with a length.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

from slowstep.frameworks.torch.inside._autograd.graph_size import LEAF
from slowstep.frameworks.torch.inside._autograd.graph_work import is_view_of_parameters

MOST_SHAPES: Final = 64
# By the beginnings of their nodes' names; the weights of some stand behind a transposition.
_PRODUCTS: Final = ("Addmm", "Mm", "Linear", "Mkldnn", "Convolution", "Cudnn", "ThnnConv")
_TURNED: Final = "TBackward"


def graph_shapes(nodes: set[Any]) -> list[list[Any]]:
    """The commonest shapes below a loss: each with how many values of it there are, its elements in all, and by how many weights they were
    multiplied, in all. Parameters that are only turned are left out.
    """
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for node in nodes:
        name = type(node).__name__
        if name == LEAF or is_view_of_parameters(node):
            continue
        weights = sum(_elements_of(following) for following, _ in node.next_functions) if name.startswith(_PRODUCTS) else 0
        for place, given in enumerate(getattr(node, "_input_metadata", None) or ()):
            shape = tuple(int(length) for length in given.shape)
            elements = math.prod(shape)
            row = by_shape.setdefault(shape, [0, 0, 0])
            row[0] += 1
            row[1] += elements
            row[2] += 0 if place or not shape else elements // max(_channels(name, shape), 1) * weights
    ranked = sorted(by_shape.items(), key=lambda item: -(item[1][1] + item[1][2]))
    return [[list(shape), *row] for shape, row in ranked[:MOST_SHAPES]]


def _channels(name: str, shape: tuple[int, ...]) -> int:
    return shape[1] if "Conv" in name and len(shape) > 1 else shape[-1]


def _elements_of(node: Any) -> int:
    """Those of a parameter that is given to a product, directly or turned."""
    if node is not None and type(node).__name__.startswith(_TURNED) and node.next_functions:
        node = node.next_functions[0][0]
    leaf = getattr(node, "variable", None) if type(node).__name__ == LEAF else None
    return 0 if leaf is None else int(leaf.numel())


def most_uses(nodes: set[Any]) -> int:
    """How many operations of a graph use its most used value: a loop over places uses its weights in each turn."""
    used = Counter(id(following) for node in nodes for following, _ in node.next_functions if following is not None)
    return max(used.values(), default=0)
