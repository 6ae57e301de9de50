"""How a script that trains with JAX writes changes. It has no loader of its own: of those that feed it torch's is recorded."""

from __future__ import annotations

from slowstep.frameworks._words import OF_LOADER, Code, Remedy, Words
from slowstep.frameworks.torch.outside.words import WORDS as TORCH

_PACKAGE = r"[/\\](site|dist)-packages[/\\](jax|jaxlib|flax|optax|equinox|haiku|chex)[/\\]"
_OWN: dict[Remedy, str] = {
    Remedy.BATCH_SIZE: "larger batches",
    Remedy.BFLOAT16: "jnp.bfloat16 for the inputs and a copy of the parameters in the loss function",
}

WORDS = Words(
    name="jax",
    title="JAX",
    code={Code.TRAINS: _PACKAGE, Code.COMPUTES: _PACKAGE, Code.STEPS: _PACKAGE},
    arguments=_OWN,
    lacks=frozenset(Remedy) - (OF_LOADER - {Remedy.PIN_MEMORY}) - _OWN.keys(),
    rests_on=TORCH,
)
