"""Which programs of an XPlane file compute gradients: XLA's profiler keeps the programs themselves beside the events."""

from __future__ import annotations

import re
from typing import Final

from slowstep.sources._xplane.plane import Plane

METADATA_PLANE: Final = "/host:metadata"
# Names of operations inside a program. JAX calls what it makes by differentiating "transpose(jvp(f))" (jax.grad is the transpose of a
# linearised function: "The Autodiff Cookbook"); TensorFlow's "gradient_tape/..." and "gradients/..." are the scopes of tf.GradientTape and
# tf.gradients. Seen in tests/data/xplane: jax_steps has the first, mi300_jax (a forward convolution) none.
GRADIENT: Final = re.compile(rb"transpose\(jvp|gradient_tape/|[/\x00-\x1f]gradients/")


def programs(plane: Plane) -> dict[str, bool]:
    """The programs that a plane holds, by name: whether they compute gradients. None in planes of events."""
    if plane.name != METADATA_PLANE:
        return {}
    return {program_name(name): any(map(GRADIENT.search, documents)) for name, documents in plane.documents() if documents}


def program_name(text: str) -> str:
    """The name of a program, which may be followed by its number: `jit_step(6)`."""
    return text.partition("(")[0]


def compute_gradients(known: dict[str, bool], names: set[str]) -> bool | None:
    """Whether one of the known programs that ran, by the `names` that events have or refer to, computes gradients; None where none is."""
    ran = known.keys() & names
    return any(known[name] for name in ran) if ran else None
