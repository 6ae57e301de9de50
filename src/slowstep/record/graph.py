"""The size of a backward graph: how many operations a step has, and how many weights. It bounds a step's fixed cost."""

from __future__ import annotations

from typing import Any, Final

# Walking costs about 1 us a node, once, in the warm-up; a larger graph is a long step, whose fixed cost is no question.
MOST_NODES: Final = 20_000


def graph_size(tensors: Any) -> dict[str, Any] | None:
    """Autograd nodes below a loss (or several) and elements of their leaves; None without a graph, or with more than MOST_NODES."""
    roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    open_nodes = [node for node in (getattr(tensor, "grad_fn", None) for tensor in roots) if node is not None]
    seen = set(open_nodes)
    elements = 0
    while open_nodes:
        node = open_nodes.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            elements += leaf.numel()
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                open_nodes.append(following)
        if len(seen) > MOST_NODES:
            return None
    return {"nodes": len(seen), "elements": elements} if seen else None
