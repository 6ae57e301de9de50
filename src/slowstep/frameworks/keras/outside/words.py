"""How a script that trains with Keras writes changes; what it has no word for is said in those of TensorFlow."""

from __future__ import annotations

import re

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Code, Words
from slowstep.frameworks.tensorflow.outside.words import WORDS as TENSORFLOW

_PACKAGE = r"[/\\](site|dist)-packages[/\\](keras|keras_hub|keras_nlp|keras_cv)[/\\]"
_LOADER = {"call": "keras.utils.PyDataset(..., {arguments})", "owner": "keras.utils:PyDataset"}

WORDS = Words(
    name="keras",
    title="Keras",
    code={Code.TRAINS: _PACKAGE, Code.STEPS: _PACKAGE},
    loop=re.compile(r"[/\\]keras[/\\]src[/\\]backend[/\\]\w+[/\\]trainer\.py$"),
    arguments={
        Remedy.WORKERS: Argument(**_LOADER, name="workers"),
        Remedy.PREFETCH: Argument(**_LOADER, name="max_queue_size"),
        Remedy.BATCH_SIZE: "larger batches",
        # Whatever computes: by default Keras compiles where it can.
        Remedy.COMPILE: "compile(jit_compile=True)",
        Remedy.GRAPHS: "compile(jit_compile=True)",
        Remedy.MOVE_ASIDE: "put what {made} into a Dataset's __getitem__ and read it by {workers}",
    },
    loader="PyDataset",
    unseen="no model was trained by fit or train_on_batch, nor by an optimizer of Keras",
    rests_on=TENSORFLOW,
)
