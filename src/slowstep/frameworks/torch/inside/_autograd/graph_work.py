"""How much a backward pass computes that may grow with the samples: elements of its operations, and products.

All of it is torch's own: types of nodes, shapes of what they gave. What is not known by name (a function of the script's, a fused cell, a
sparse or compiled graph) is named, for its work is in no shape.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from slowstep.frameworks.torch.inside._autograd.graph_size import LEAF, is_of_leaves_alone

_NUMBERED: Final = re.compile(r"Backward\d+$")
_VIEWS: Final = frozenset(("Alias", "Permute", "ReshapeAlias", "Squeeze", "T", "Transpose", "UnsafeView", "Unsqueeze", "View"))
# fmt: off
_ELEMENTWISE: Final = frozenset((
    "Abs", "Add", "Clamp", "ClampMax", "ClampMin", "Cos", "Div", "Elu", "Erf", "Exp", "Gelu", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyRelu", "Log", "Log1P", "LogSigmoid", "Maximum", "Minimum", "Mul", "NativeDropout", "Neg", "Pow", "Reciprocal", "Relu", "Rsqrt",
    "Rsub", "Sigmoid", "Silu", "Sin", "Softplus", "Sqrt", "Sub", "Tanh", "Where", "MaskedFill"
))
_REDUCED: Final = frozenset((
    "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits", "HuberLoss", "LinalgVectorNorm", "LogSoftmax", "Logsumexp", "Mean", "MseLoss",
    "NativeBatchNorm", "NativeGroupNorm", "NativeLayerNorm", "NllLoss", "NllLoss2D", "SafeSoftmax", "SmoothL1Loss", "Softmax", "Std",
    "Sum", "Var"
))
_MOVED: Final = frozenset((
    "Cat", "Clone", "ConstantPadNd", "Expand", "Repeat", "Select", "Slice", "Split", "SplitWithSizes", "Stack", "Unbind", "UnsafeSplit"
))
# fmt: on
# Those that take several times as long for an element, by name; of short rows; and of values of more than 128 KiB, which a core's cache may
# not hold, and for which the C library may ask the system for new pages each time (M_MMAP_THRESHOLD of mallopt(3)).
_AVERAGE: Final = "AvgPool2D"
_DEAR: Final = frozenset(("AdaptiveAvgPool2D", _AVERAGE, "MaxPool2DWithIndices", "Pow"))
_OF_ROWS: Final = frozenset(("LogSoftmax", "NativeGroupNorm", "NativeLayerNorm", "SafeSoftmax", "Softmax"))
_SHORT_ROW: Final = 16
# A place of a short row takes up to 18 ns (softmax 8), one of a long row a tenth of it: each is so many elements.
_SHORT_TIMES: Final = 4
_LARGE: Final = 1 << 15
_EMBEDDING: Final = "Embedding"
_SCATTERED: Final = frozenset((_EMBEDDING, "Gather", "Index", "IndexAdd", "IndexSelect", "ScatterAdd"))
# Finding a row of a table takes as long as so many elements that are found one by one.
_ROW: Final = 4
# By which operands: the place of the first of two matrices.
_PRODUCTS: Final = {"Addmm": 1, "Baddbmm": 1, "Bmm": 0, "Mm": 0}
# Of several matrices those of fewer products than this are multiplied one by one, by a plain loop (ATen's bmm): elements that take longer.
_OF_SEVERAL: Final = frozenset(("Baddbmm", "Bmm"))
_BY_LOOP: Final = 400
# Larger ones are multiplied by a call for each where their gradient does not lie in order (of a sum, or stacked), which no shape tells:
# backward took 5 us for a matrix then, and 0.4 us else.
_MATRIX: Final = 2048
_CONVOLUTION: Final = "Convolution"
_ATTENTION: Final = "ScaledDotProductFlashAttentionForCpu"
_KNOWN: Final = _VIEWS | _ELEMENTWISE | _REDUCED | _MOVED | _DEAR | _SCATTERED | {*_PRODUCTS, _CONVOLUTION, _ATTENTION}
MOST_NAMES: Final = 8
Lengths = tuple[int, ...]
# What an operation took, by autograd: the node that made it (None where no gradient is wanted of it), and which of its outputs it is.
_Below = tuple[tuple[Any, int], ...]


class GraphWork(NamedTuple):
    """Of one pass. `elements`: of what operations read and gave; `dear`: of them those that take longer; `scattered`: those found by
    index; `products`: of two elements each.
    """

    elements: int
    dear: int
    scattered: int
    products: int
    unknown: tuple[str, ...]


def graph_work(nodes: Iterable[Any]) -> GraphWork:
    """Of these nodes; what is made of parameters alone is left out, as is the writing of their gradients."""
    counts, unknown = [0, 0, 0, 0], set[str]()
    for node in nodes:
        name = name_of(node)
        if name == LEAF or is_view_of_parameters(node):
            continue
        work = _of_node(name, node)
        if work is None:
            unknown.add(name)
        else:
            counts = [a + b for a, b in zip(counts, work, strict=True)]
    elements, dear, scattered, products = counts
    return GraphWork(elements, dear, scattered, products, tuple(sorted(unknown)[:MOST_NAMES]))


def _of_node(name: str, node: Any) -> tuple[int, int, int, int] | None:
    given, below = given_by(node), node.next_functions
    multiplied = None if given is None or name not in _KNOWN else _multiplied(name, node, below, given)
    if given is None or multiplied is None:
        return None
    own, read = sum(map(math.prod, given)), 0 if name in _VIEWS else _read(below)
    elements = own + read + multiplied.elements
    is_short = name in _OF_ROWS and bool(given[0]) and given[0][-1] < _SHORT_ROW
    elements *= _SHORT_TIMES if is_short else 1
    is_dear = name in _DEAR or is_short or multiplied.is_dear or max(own, read, multiplied.at_once) > _LARGE
    scattered = own if name in _SCATTERED else 0
    if name == _EMBEDDING:
        scattered = _ROW * math.prod(given[0][:-1])
    return elements, elements if is_dear else multiplied.dear, scattered, multiplied.products


def name_of(node: Any) -> str:
    """The operation's, without what autograd adds to it."""
    return _without_number(type(node).__name__)


@lru_cache(maxsize=1024)
def _without_number(name: str) -> str:
    return _NUMBERED.sub("", name)


def is_view_of_parameters(node: Any) -> bool:
    """Whether it turns a parameter, which is done once however large a batch is."""
    return name_of(node) in _VIEWS and is_of_leaves_alone(node)


def given_by(node: Any) -> list[Lengths] | None:
    """The shapes of what it gave, of 32-bit floats on the processor; None of other values, or where nodes do not tell."""
    given, usual = getattr(node, "_input_metadata", None), getattr(sys.modules.get("torch"), "float32", None)
    if given is None or any(each.dtype is not usual or each.device.type != "cpu" for each in given):
        return None
    return [tuple(int(length) for length in each.shape) for each in given]


def _read(below: _Below) -> int:
    """Elements of what it took that wants a gradient, weights left out."""
    total = 0
    for following, at in below:
        if following is not None and type(following).__name__ != LEAF and not is_view_of_parameters(following):
            total += math.prod(_shape_at(following, at) or ())
    return total


def _shape_at(node: Any, at: int) -> Lengths | None:
    given = getattr(node, "_input_metadata", None)
    return None if given is None or at >= len(given) else tuple(int(length) for length in given[at].shape)


class _Multiplied(NamedTuple):
    """Products, and elements beyond those that want a gradient: how many, how many of one value, and how many, or whether all, are dear."""

    products: int = 0
    elements: int = 0
    at_once: int = 0
    dear: int = 0
    is_dear: bool = False


def _multiplied(name: str, node: Any, below: _Below, given: list[Lengths]) -> _Multiplied | None:
    """None where the shapes do not tell."""
    if name == _AVERAGE:
        # Each place of its windows is added to.
        window = getattr(node, "_saved_kernel_size", None)
        return _Multiplied(elements=math.prod(window) * math.prod(given[0])) if window else None
    if name != _CONVOLUTION and name != _ATTENTION and name not in _PRODUCTS:
        return _Multiplied()
    operands = [None if following is None else operand_shape(following, at) for following, at in below]
    if name == _CONVOLUTION:
        return _convolved(given[0], operands[1])
    if name == _ATTENTION:
        return _attended(operands)
    place = _PRODUCTS[name]
    return _of_matrices(name, given[0], *operands[place : place + 2])


def _of_matrices(name: str, given: Lengths, first: Lengths | None, second: Lengths | None) -> _Multiplied | None:
    inner = first[-1] if first else second[-2] if second else None
    if inner is None:
        return None
    rows, columns, products = math.prod(given[:-1]), math.prod(given[:-2]) * given[-1], math.prod(given) * inner
    # What wants no gradient is read for that of the other.
    at_once = max(rows if first is None else 0, columns if second is None else 0) * inner
    elements = (rows + (columns if second is None else 0)) * inner
    if name in _OF_SEVERAL and math.prod(given[-2:]) * inner < _BY_LOOP:
        return _Multiplied(0, elements + products, at_once, is_dear=True)
    dear = _MATRIX * math.prod(given[:-2]) if name in _OF_SEVERAL else 0
    return _Multiplied(products, elements + dear, at_once, dear)


def _convolved(given: Lengths, weight: Lengths | None) -> _Multiplied | None:
    # As if all that lies below the weights were laid out for each place, which some kernels do.
    if weight is None or len(given) < 2:
        return None
    places = math.prod(given) // max(given[1], 1)
    return _Multiplied(places * math.prod(weight), places * math.prod(weight) // max(weight[0], 1))


def _attended(operands: list[Lengths | None]) -> _Multiplied | None:
    query, key = operands[0], operands[1]
    if query is None or key is None:
        return None
    scores = math.prod(query[:-1]) * key[-2]
    return _Multiplied(2 * scores * query[-1], scores)


def operand_shape(node: Any, at: int) -> Lengths | None:
    """Of what is given to an operation; a leaf's is its variable's."""
    if type(node).__name__ == LEAF:
        return tuple(int(length) for length in node.variable.shape)
    return _shape_at(node, at)
