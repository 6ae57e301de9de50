"""How changes of the input are written, by what Keras' `fit` was given: whichever framework computes it takes the same kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Words
from slowstep.frameworks.tensorflow.outside.words import WORDS as TENSORFLOW
from slowstep.frameworks.torch.outside.words import WORDS as TORCH

# One worker that is a thread is none: batches are then made by the thread that trains.
_CALL: Final = "keras.utils.PyDataset(..., use_multiprocessing=True, {arguments})"
_OWNER: Final = "keras.utils:PyDataset"

PYDATASET: Final = Words(
    name="PyDataset",
    title="PyDataset",
    loader="PyDataset",
    arguments={
        Remedy.WORKERS: Argument(call=_CALL, owner=_OWNER, name="workers", none=1, forks=True),
        Remedy.PREFETCH: Argument(call=_CALL, owner=_OWNER, name="max_queue_size"),
        Remedy.BATCH_SIZE: "larger batches from its __getitem__",
    },
)
_GENERATOR: Final = Words(
    name="generator",
    title="generator",
    loader="generator",
    arguments={
        Remedy.WORKERS: Argument(
            call=f"a {_CALL} in place of the generator, which makes one batch at a time", owner=_OWNER, name="workers", none=1, forks=True
        ),
        Remedy.BATCH_SIZE: "larger batches from the generator",
    },
)
_ARRAYS: Final = Words(
    name="arrays",
    title="arrays",
    loader="arrays given to fit()",
    arguments={
        # Processes would have to hand over what is there already.
        Remedy.WORKERS: "arrays of the type that the model takes, converted once before fit(); or have batches made ahead by tf.data: "
        "Dataset.from_tensor_slices(...).batch(...).prefetch(tf.data.AUTOTUNE)",
        Remedy.BATCH_SIZE: "fit(..., batch_size=...)",
    },
)
# What is known of it only is that it is no other one.
_GRAIN: Final = Words(name="grain", title="Grain", loader="Grain data set", arguments={})

# By what recordings call each.
INPUTS: Final[Mapping[str, Words]] = {
    "PyDataset": PYDATASET,
    "generator": _GENERATOR,
    "arrays": _ARRAYS,
    "tf.data": TENSORFLOW,
    "DataLoader": TORCH,
    "grain": _GRAIN,
}
