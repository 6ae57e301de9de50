"""How a script that trains with JAX writes changes."""

from __future__ import annotations

from slowstep.frameworks._words import Argument, Code, Remedy, Words

_PACKAGE = r"[/\\](site|dist)-packages[/\\](jax|jaxlib|flax|optax|equinox|haiku|chex)[/\\]"

WORDS = Words(
    name="jax",
    title="JAX",
    code={Code.TRAINS: _PACKAGE, Code.COMPUTES: _PACKAGE, Code.STEPS: _PACKAGE},
    loader="grain.DataLoader",
    arguments={
        Remedy.WORKERS: Argument(call="grain.DataLoader(..., {arguments})", owner="grain.python:DataLoader", name="worker_count"),
        Remedy.BATCH_SIZE: "larger batches",
        Remedy.BFLOAT16: "jnp.bfloat16 for parameters' copies and inputs in the loss function",
    },
)
