"""How a script that trains with Keras writes changes."""

from __future__ import annotations

import re

from slowstep.frameworks._words import Argument, Code, Remedy, Words

_PACKAGE = r"[/\\](site|dist)-packages[/\\](keras|keras_hub|keras_nlp|keras_cv)[/\\]"
_LOADER = {"call": "keras.utils.PyDataset(..., {arguments})", "owner": "keras.utils:PyDataset"}
_OWN: dict[Remedy, Argument | str] = {
    Remedy.WORKERS: Argument(**_LOADER, name="workers"),
    Remedy.PREFETCH: Argument(**_LOADER, name="max_queue_size"),
    Remedy.BATCH_SIZE: "larger batches",
}

WORDS = Words(
    name="keras",
    title="Keras",
    code={Code.TRAINS: _PACKAGE, Code.STEPS: _PACKAGE},
    loop=re.compile(r"[/\\]keras[/\\]src[/\\]backend[/\\]\w+[/\\]trainer\.py$"),
    arguments=_OWN,
    lacks=frozenset(Remedy) - _OWN.keys(),
    loader="PyDataset",
)
