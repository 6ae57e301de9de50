"""How a script that trains with TensorFlow writes changes."""

from __future__ import annotations

from slowstep.frameworks._words import Code, Remedy, Words

_PACKAGE = r"[/\\](site|dist)-packages[/\\]tensorflow[/\\]"
_OWN: dict[Remedy, str] = {Remedy.BATCH_SIZE: "larger batches"}

WORDS = Words(
    name="tensorflow",
    title="TensorFlow",
    code={Code.TRAINS: _PACKAGE, Code.COMPUTES: _PACKAGE, Code.STEPS: _PACKAGE},
    arguments=_OWN,
    lacks=frozenset(Remedy) - _OWN.keys(),
)
