"""What of a backward pass makes gradients of given parameters and nothing else: of those that no optimizer holds it is of no use.

All of it is torch's own: types of nodes, and which node is below which. What a function of the script's own does with a gradient nobody
tells: it counts as of use.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from slowstep.frameworks.torch.inside._autograd.graph_size import LEAF
from slowstep.frameworks.torch.inside._autograd.graph_work import is_view_of_parameters, name_of

# Operations that multiply, by the place of the first of the two that they do: each one's gradient is a product of its own.
_FACTORS: Final = {"Addmm": 1, "Baddbmm": 1, "Bmm": 0, "Convolution": 0, "Mm": 0}


class UnusedWork(NamedTuple):
    """Of one pass: `alone` are the nodes that lead to the given parameters only, `halves` those that multiply for one gradient that is of
    use and one that is not; of so many of these, `passing`, the one of no use is a parameter's.
    """

    alone: frozenset[Any]
    halves: tuple[Any, ...]
    passing: int


def unheld_parameters(nodes: Iterable[Any], is_held: Callable[[Any], bool]) -> list[Any]:
    """Plain parameters that get a gradient beside those of optimizers, and of which nobody is known who takes it: no hook on them does."""
    parameter: Any = sys.modules["torch"].nn.Parameter
    leaves = [node.variable for node in nodes if type(node).__name__ == LEAF]
    unheld = [leaf for leaf in leaves if not is_held(leaf)]
    # What a pass that is none of any optimizer's is for nobody tells.
    return [leaf for leaf in unheld if type(leaf) is parameter and not _has_hooks(leaf)] if len(unheld) < len(leaves) else []


def find_unused(nodes: set[Any], unused: Collection[int]) -> UnusedWork:
    """Of these nodes, all of a pass; `unused` has the id() of each parameter whose gradient is of no use."""
    python: Any = getattr(sys.modules["torch"].autograd.function, "BackwardCFunction", ())
    ends = [node for node in nodes if _ends_in_use(node, unused, python)]
    alone = frozenset(nodes - _above(ends, nodes))
    unused_factors = {node: factor for node in nodes - alone if (factor := _unused_factor(node, alone)) is not None}
    passing = sum(type(factor).__name__ == LEAF or is_view_of_parameters(factor) for factor in unused_factors.values())
    return UnusedWork(alone, tuple(unused_factors), passing)


def _has_hooks(leaf: Any) -> bool:
    return bool(getattr(leaf, "_backward_hooks", None) or getattr(leaf, "_post_accumulate_grad_hooks", None))


def _ends_in_use(node: Any, unused: Collection[int], python: Any) -> bool:
    if type(node).__name__ == LEAF:
        return id(node.variable) not in unused
    return isinstance(node, python) or all(following is None for following, _ in node.next_functions)


def _above(ends: list[Any], nodes: set[Any]) -> set[Any]:
    """These nodes, and all whose gradients they are made of."""
    users = defaultdict(list)
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                users[following].append(node)
    found, left = set(ends), list(ends)
    while left:
        for node in users[left.pop()]:
            if node not in found:
                found.add(node)
                left.append(node)
    return found


def _unused_factor(node: Any, alone: Collection[Any]) -> Any:
    """The one of two that it multiplies whose gradient is of no use while that of the other is; None where there is none such."""
    place = _FACTORS.get(name_of(node))
    if place is None:
        return None
    factors = [following for following, _ in node.next_functions[place : place + 2] if following is not None]
    unused = [factor for factor in factors if factor in alone]
    return unused[0] if len(factors) == 2 and len(unused) == 1 else None
