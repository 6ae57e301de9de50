"""How its users write changes."""

from __future__ import annotations

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Words

WORDS = Words(
    name="pretend",
    title="Pretend",
    arguments={
        Remedy.WORKERS: Argument(call="background({arguments})", owner="pretend:background", name="workers"),
        Remedy.BATCH_SIZE: "larger batches",
    },
)
