"""Which operations of a pass multiply: how much each does, forward and backward, and how many elements it moves for that at least.

All of it is torch's own: types of nodes, shapes of what they gave and took. What these do not tell is not known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from slowstep.frameworks.torch.inside._autograd.graph_work import Lengths, given_by, name_of, operand_shape

CONVOLUTION: Final = "convolution"
MATRICES: Final = "matrices"
ATTENTION: Final = "attention"
# By the node's name: the kind, and at which of its operands what it multiplies begins.
_KINDS: Final = {
    "Addmm": (MATRICES, 1),
    "Baddbmm": (MATRICES, 1),
    "Bmm": (MATRICES, 0),
    "Convolution": (CONVOLUTION, 0),
    "Mm": (MATRICES, 0),
    "ScaledDotProductFlashAttentionForCpu": (ATTENTION, 0),
}
# Where so many operations multiply, none holds half of a step.
MOST_PRODUCTS: Final = 256
UNTOLD: Final = -1


class NodeProducts(NamedTuple):
    """Of one operation, and of its gradients: products of two elements, and elements that are read and written at least, each once;
    UNTOLD where shapes do not tell. `shape` is that of what it gave, `kernel` the lengths of a convolution's (none of one that goes
    backwards).
    """

    kind: str
    shape: Lengths
    products: int = UNTOLD
    backward: int = UNTOLD
    moved: int = UNTOLD
    moved_back: int = UNTOLD
    kernel: Lengths = ()


def find_products(nodes: Iterable[Any]) -> dict[NodeProducts, list[Any]] | None:
    """The nodes of a pass that multiply, those together that do the same; None where there are too many."""
    found: dict[NodeProducts, list[Any]] = defaultdict(list)
    multiplying = [node for node in nodes if name_of(node) in _KINDS]
    if len(multiplying) > MOST_PRODUCTS:
        return None
    for node in multiplying:
        found[_of_node(node)].append(node)
    return dict(found)


def multiplied_types(nodes: Iterable[Any]) -> dict[str, int]:
    """How many operations multiply on the processor, and how many of them give numbers of 16 bits, by type."""
    given = [getattr(node, "_input_metadata", None) for node in nodes if name_of(node) in _KINDS]
    types = [str(each[0].dtype).removeprefix("torch.") for each in given if each and each[0].device.type == "cpu"]
    return {"multiplying": len(types), **{name: types.count(name) for name in ("float16", "bfloat16")}}


def _of_node(node: Any) -> NodeProducts:
    kind, place = _KINDS[name_of(node)]
    given, below = given_by(node), node.next_functions[place:]
    if given is None:
        return NodeProducts(kind, ())
    operands = [None if following is None else operand_shape(following, at) for following, at in below]
    if kind == MATRICES:
        return _of_matrices(given[0], operands)
    return _convolved(node, given[0], operands) if kind == CONVOLUTION else _attended(node, given[0], operands)


def _of_matrices(given: Lengths, operands: list[Lengths | None]) -> NodeProducts:
    first, second = operands[:2]
    inner = first[-1] if first else second[-2] if second else None
    if inner is None:
        return NodeProducts(MATRICES, given)
    products, wanted = math.prod(given) * inner, (first is not None) + (second is not None)
    own, of_operands = math.prod(given), (math.prod(given[:-1]) + math.prod(given[:-2]) * given[-1]) * inner
    # For the gradient of each the other one is read.
    return NodeProducts(MATRICES, given, products, wanted * products, own + of_operands, own + wanted * of_operands)


def _convolved(node: Any, given: Lengths, operands: list[Lengths | None]) -> NodeProducts:
    weight, turned = operands[1], getattr(node, "_saved_transposed", None)
    # What wants no gradient is in no shape, but may have been kept for the gradient of the weights.
    taken = operands[0] or _kept_shape(getattr(node, "_raw_saved_input", None))
    over = {False: given, True: taken}.get(turned) if isinstance(turned, bool) else None
    if weight is None or over is None or len(over) < 2:
        return NodeProducts(CONVOLUTION, given)
    products, wanted = math.prod(over) // max(over[1], 1) * math.prod(weight), 1 + (operands[0] is not None)
    kernel = () if turned else tuple(weight[2:])
    if taken is None:
        return NodeProducts(CONVOLUTION, given, products, wanted * products, kernel=kernel)
    own, of_operands = math.prod(given), math.prod(taken) + math.prod(weight)
    return NodeProducts(CONVOLUTION, given, products, wanted * products, own + of_operands, own + wanted * of_operands, kernel)


def _attended(node: Any, given: Lengths, operands: list[Lengths | None]) -> NodeProducts:
    query, key, value = operands[:3]
    # Of what looks back only, kernels may leave half of the products out.
    if query is None or key is None or value is None or getattr(node, "_saved_is_causal", None) is not False:
        return NodeProducts(ATTENTION, given)
    scores, of_operands = math.prod(query[:-1]) * key[-2], sum(map(math.prod, (query, key, value)))
    of_keys, of_values = scores * query[-1], scores * value[-1]
    own = math.prod(given)
    # The gradients of values and scores are of values each, those of queries and keys of keys.
    return NodeProducts(ATTENTION, given, of_keys + of_values, 2 * of_keys + 2 * of_values, own + of_operands, own + 2 * of_operands)


def _kept_shape(kept: Any) -> Lengths | None:
    """Of what was kept for backward; None where a hook of the user's has packed it."""
    if not hasattr(kept, "unpack_hook") or kept.unpack_hook is not None or kept.data is None:
        return None
    return tuple(int(length) for length in kept.data.shape)
