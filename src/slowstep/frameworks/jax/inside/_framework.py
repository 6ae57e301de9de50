"""What JAX is to the recorder: whose frames are its own, and what it says of a training."""

from __future__ import annotations

import sys
from typing import Any, Final

from slowstep.frameworks.jax.inside._leaves import arrays, describe
from slowstep.record.framework import Framework
from slowstep.record.system.facts import cores_allowed


class Jax(Framework):
    """Functions that are compiled; a call of one returns before it is done, on a processor too."""

    name = "jax"
    module = "jax"
    packages = ("jax", "jaxlib", "flax", "optax", "equinox", "haiku", "chex")
    has_optimizers = False

    def facts(self) -> dict[str, Any]:
        """Ranks, and that it works while its caller goes on. Asked when something was computed: nothing is initialised by it."""
        jax = sys.modules["jax"]
        world = jax.process_count()
        return super().facts() | {
            "asynchronous": True,
            "cores": cores_allowed(),
            "world_size": world if world > 1 else None,
            "rank": jax.process_index() if world > 1 else None,
        }

    def rank(self) -> tuple[int, int] | None:
        """That of its processes, where the script has initialised them. Raises what JAX does."""
        jax = sys.modules["jax"]
        # Older versions do not say. To count processes initialises devices, which an update has done before.
        is_initialized = getattr(jax.distributed, "is_initialized", None)
        if is_initialized is not None and not is_initialized():
            return None
        return jax.process_index(), jax.process_count()

    def has_compiled(self) -> bool:
        """It runs nothing else, and none of that notices."""
        return False

    def is_tracing(self) -> bool:
        """In a function that is jitted, differentiated or mapped: at its first call, and again for other shapes. It is told privately."""
        is_clean = getattr(sys.modules.get("jax._src.core"), "trace_state_clean", None)
        return is_clean is not None and not is_clean()

    def is_used_up(self, value: Any) -> bool:
        """Where a jitted function was given an array for good (`donate_argnums`)."""
        return any(array.is_deleted() for array in arrays(value))

    def is_bound_to_shapes(self) -> bool:
        """Each function is compiled for the shapes that it is called with."""
        return True

    def describe_optimizer(self, optimizer: Any) -> dict[str, Any]:
        """What a jitted function gives: nearly all of it goes to its next call."""
        return {**describe(optimizer.given), "type": optimizer.name, "fused": None}


FRAMEWORK: Final = Jax()
