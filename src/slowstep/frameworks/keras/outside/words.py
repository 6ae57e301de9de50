"""How a script that trains with Keras writes changes; what it has no word for is said in those of the framework that computes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Code, Words
from slowstep.frameworks.tensorflow.outside.words import WORDS as TENSORFLOW
from slowstep.frameworks.torch.outside.words import WORDS as TORCH

_PACKAGE: Final = r"[/\\](site|dist)-packages[/\\](keras|keras_hub|keras_nlp|keras_cv)[/\\]"
# What those that compute say to loops of the script's own: Keras' loop and optimizers do it, or have no way to.
_LOOPS_OWN: Final = frozenset(
    {
        *(Remedy.FUSED, Remedy.FUSED_ADAMW, Remedy.SCALED_UPDATE, Remedy.NAMED_UPDATE, Remedy.TOLD_BY_HAND),
        *(Remedy.DEVICE, Remedy.COPY_AHEAD, Remedy.NO_GRADIENTS, Remedy.METRICS_AT_END),
    }
)


def _of_fit(name: str, value: object = None) -> Argument:
    return Argument(call="fit(..., {arguments})", owner="keras:Model.fit", name=name, value=value)


def _of_checkpoint(name: str, value: object = None) -> Argument:
    return Argument(
        call="keras.callbacks.ModelCheckpoint(..., {arguments})", owner="keras.callbacks:ModelCheckpoint", name=name, value=value
    )


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

# What only `fit` does: a loop of the script's own validates, saves and tells what it does by itself.
_OF_FIT: Final[dict[Remedy, Argument | str]] = {
    Remedy.VALIDATION_EPOCHS: _of_fit("validation_freq"),
    Remedy.VALIDATION_LENGTH: _of_fit("validation_steps"),
    Remedy.VALIDATION_BATCH_SIZE: "larger batches in validation_data (of arrays: validation_batch_size=...)",
    Remedy.CHECKPOINT_STEPS: _of_checkpoint("save_freq"),
    Remedy.CHECKPOINT_WEIGHTS: _of_checkpoint("save_weights_only", True),
    Remedy.CHECKPOINT_ASIDE: Argument(
        call="keras.callbacks.OrbaxCheckpoint(..., {arguments})",
        owner="keras.callbacks:OrbaxCheckpoint",
        name="save_on_background",
        value=True,
    ),
    Remedy.LOGGING_STEPS: Argument(
        call="keras.callbacks.TensorBoard(..., {arguments})", owner="keras.callbacks:TensorBoard", name="update_freq"
    ),
    # A line for each epoch.
    Remedy.PROGRESS_BAR: _of_fit("verbose", 2),
}

# By what recordings call what `fit` was given: whichever framework computes it takes the same kinds.
INPUTS: Final[Mapping[str, Words]] = {
    "PyDataset": PYDATASET,
    "generator": _GENERATOR,
    "arrays": _ARRAYS,
    "tf.data": TENSORFLOW,
    "DataLoader": TORCH,
    "grain": _GRAIN,
}

WORDS = Words(
    name="keras",
    title="Keras",
    packages=frozenset({"keras"}),
    code={Code.TRAINS: _PACKAGE, Code.STEPS: _PACKAGE, Code.METRICS: r"^(tf_)?keras[/\\](src[/\\])?metrics[/\\]"},
    loop=re.compile(r"[/\\]keras[/\\]src[/\\]backend[/\\]\w+[/\\]trainer\.py$"),
    arguments={
        # Where it is not known what `fit` was given, or a loop of the script's own makes its batches.
        **PYDATASET.arguments,
        Remedy.BATCH_SIZE: "larger batches",
        # Whatever computes: by default Keras compiles where it can.
        Remedy.COMPILE: "compile(jit_compile=True)",
        Remedy.NO_EAGER: "compile() without run_eagerly=True, and no tf.config.run_functions_eagerly(True): "
        "prints and .numpy() in the step are for a look at it",
        Remedy.STEPS_TOGETHER: "compile(..., steps_per_execution={value}), which is to divide steps_per_epoch where fit is given that",
        Remedy.GRAPHS: "compile(jit_compile=True)",
        Remedy.FLOAT32: "keras.config.set_floatx('float32'), and batches as float32",
        Remedy.BFLOAT16: "keras.mixed_precision.set_global_policy('mixed_bfloat16')",
        Remedy.FLOAT16: "keras.mixed_precision.set_global_policy('mixed_float16')",
        Remedy.ACCUMULATE: Argument(
            call="keras.optimizers.Adam(..., {arguments})", owner="keras.optimizers:Adam", name="gradient_accumulation_steps", value=...
        ),
        Remedy.AVERAGED_BY_FRAMEWORK: "use_ema=True of Keras' optimizers",
        Remedy.MOVE_ASIDE: "put what {made} into a Dataset's __getitem__ and read it by {workers}",
        **_OF_FIT,
        Remedy.PREDICTED_DIRECTLY: "model(x, training=False) of what is one batch, or model.predict_on_batch(x): a call of model.predict "
        "begins a loop of its own, with callbacks, a progress bar and an iterator over its input",
    },
    lacks=_LOOPS_OWN,
    of_loop=frozenset(_OF_FIT),
    spared={"Model.predict": Remedy.PREDICTED_DIRECTLY},
    loader=PYDATASET.loader,
    inputs=INPUTS,
    unseen="no model was trained by fit or train_on_batch, nor by an optimizer of Keras "
    "(of Keras 2, which TensorFlow 2.15 and older bring, no fit is recorded)",
    begun="fit or train_on_batch had begun its first step, in which Keras compiles the model, and had not ended it",
    no_losses="it is no fit or train_on_batch of a model whose loss tracker adds them up (a train_step with metrics of its own does not)",
    rests_on=TENSORFLOW,
)
