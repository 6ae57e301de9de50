"""Arrays in what a jitted function takes and gives: looked at, and never held."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any


def arrays(tree: Any) -> list[Any]:
    """The arrays on devices in a tree, in its order. Raises what JAX does of a tree that it does not know."""
    leaves = sys.modules["jax"].tree_util.tree_leaves(tree)
    return [leaf for leaf in leaves if is_array(leaf)]


def is_array(value: Any) -> bool:
    """Whether it is an array on a device, and no tracer: which is an instance of the public type as well."""
    return hasattr(type(value), "is_ready")


def may_be_trained(array: Any) -> bool:
    """Whether it may hold parameters: several real numbers. To be asked of one whose memory was given away as well."""
    return int(array.size) > 1 and "float" in str(array.dtype)


def describe(found: list[Any]) -> dict[str, Any]:
    """How many elements they have, of which types, and where most of them are."""
    dtypes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    for array in found:
        dtypes[str(array.dtype)] += int(array.size)
        devices[str(next(iter(array.devices())).platform)] += int(array.size)
    device = devices.most_common(1)[0][0] if devices else None
    return {"params": sum(dtypes.values()), "dtypes": dict(dtypes), "device": device}
