"""The size of a backward graph: how many operations a step has, and how many weights. It bounds a step's fixed cost."""

from __future__ import annotations

from typing import Any, Final

# Walking costs about 1 us a node, once, in the warm-up; a larger graph is a long step, whose fixed cost is no question.
MOST_NODES: Final = 20_000
# The type of the node of a parameter, or of another tensor that is given and wants a gradient.
LEAF: Final = "AccumulateGrad"


def graph_size(tensors: Any) -> dict[str, Any] | None:
    """Autograd nodes below a loss (or several) and elements of their leaves; None without a graph, or with more than MOST_NODES."""
    nodes = nodes_below(tensors, MOST_NODES)
    if not nodes:
        return None
    leaves = (getattr(node, "variable", None) for node in nodes)
    return {"nodes": len(nodes), "elements": sum(leaf.numel() for leaf in leaves if leaf is not None)}


def is_of_leaves_alone(node: Any) -> bool:
    """Whether all operands that an operation tells of are parameters, as they are. An embedding tells of its table, and not of what it is
    asked for.
    """
    below = node.next_functions
    return bool(below) and all(type(following).__name__ == LEAF for following, _ in below)


def nodes_below(tensors: Any, most: int) -> set[Any] | None:
    """The autograd nodes below a loss (or several); None where there are more than `most`."""
    nodes, is_whole = nodes_until(tensors, most)
    return nodes if is_whole else None


def nodes_until(tensors: Any, most: int) -> tuple[set[Any], bool]:
    """The autograd nodes below a loss (or several), and whether these are all: walking ends where they are more than `most`."""
    roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    open_nodes = [node for node in (getattr(tensor, "grad_fn", None) for tensor in roots) if node is not None]
    seen = set(open_nodes)
    while open_nodes:
        for following, _ in open_nodes.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                open_nodes.append(following)
        if len(seen) > most:
            return seen, False
    return seen, True
