"""How a script that trains with JAX writes changes."""

from __future__ import annotations

from slowstep.frameworks._words import Code, Remedy, Words

_PACKAGE = r"[/\\](site|dist)-packages[/\\](jax|jaxlib|flax|optax|equinox|haiku|chex)[/\\]"

WORDS = Words(
    name="jax",
    title="JAX",
    code={Code.TRAINS: _PACKAGE, Code.COMPUTES: _PACKAGE, Code.STEPS: _PACKAGE},
    arguments={
        Remedy.BATCH_SIZE: "larger batches",
        Remedy.BFLOAT16: "jnp.bfloat16 for parameters' copies and inputs in the loss function",
    },
)
