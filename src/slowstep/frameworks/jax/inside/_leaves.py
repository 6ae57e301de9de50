"""Arrays in what a jitted function takes and gives: looked at, and never held."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from slowstep.record.framework import described


def leaves_of(tree: Any) -> list[Any]:
    """All that a tree holds, in its order. Raises what JAX does of a tree that it does not know."""
    return list(sys.modules["jax"].tree_util.tree_leaves(tree))


def arrays(tree: Any) -> list[Any]:
    """The arrays on devices in a tree."""
    return [leaf for leaf in leaves_of(tree) if is_array(leaf)]


def is_array(value: Any) -> bool:
    """Whether it is an array on a device, and no tracer: which is an instance of the public type as well."""
    return hasattr(type(value), "is_ready")


def may_be_trained(array: Any) -> bool:
    """Whether it may hold parameters: several real numbers. To be asked of one whose memory was given away as well."""
    return int(array.size) > 1 and "float" in str(array.dtype)


def describe(found: list[Any]) -> dict[str, Any]:
    """How many elements they have, of which types, and where most of them are."""
    devices: Counter[str] = Counter()
    for array in found:
        devices[str(next(iter(array.devices())).platform)] += int(array.size)
    return described(((str(array.dtype), array.shape) for array in found), devices.most_common(1)[0][0] if devices else None)
