"""What Keras is to the recorder: it trains on another framework, which computes, and whose answers are its own."""

from __future__ import annotations

import sys
import weakref
from types import FrameType, MethodType
from typing import Any, Final

from slowstep.frameworks.keras.inside._given import GivenInput
from slowstep.frameworks.tensorflow.inside._framework import device_of
from slowstep.record.attributes import held_by
from slowstep.record.framework import NO_FRAMEWORK, Framework, Tells, caller, described, known_frameworks

# On this one Keras computes operation by operation, and calls its optimizer each time; on the others all of a step is compiled.
TORCH: Final = "torch"
TENSORFLOW: Final = "tensorflow"
JAX: Final = "jax"
# With these the loss tracker of a model holds what the last call has added; with JAX only where an epoch ends.
TELL_LOSSES: Final = frozenset({TENSORFLOW, TORCH})
_CLASSES: Final = {TENSORFLOW: "TensorFlow", JAX: "JAX", TORCH: "Torch"}


class Keras(Framework):
    """It has a loop. What computes in it says whether calls return before that is done.

    `waits_inside` tells that calls which train wait for their input as well, and that nothing shows how long; `running` is the list of
    callbacks of the `fit` that was told of a batch last; `given` is what each `fit` was given, and `by_script` tells that most calls
    are none of a `fit`, but of a loop of the script's own. What it knows is of one recording.
    """

    name = "keras"
    module = "keras"
    packages = ("keras", "keras_hub", "keras_nlp", "keras_cv", "keras_tuner")
    # `History` is what `fit` returns.
    steering_callbacks = frozenset(
        {
            *("EarlyStopping", "LearningRateScheduler", "ReduceLROnPlateau", "TerminateOnNaN", "SwapEMAWeights", "History"),
            *("ModelCheckpoint", "BackupAndRestore"),
        }
    )

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing of what has trained so far."""
        self.waits_inside = False
        # Where all of a step is compiled no optimizer is seen to be called.
        self.has_optimizers = False
        self.tells_losses = backend_name() in TELL_LOSSES
        self.running: weakref.ref[Any] | None = None
        self.given = GivenInput()
        self.by_script = False

    def runs(self, callbacks: Any, loop: FrameType) -> bool:
        """A `fit` with this list of callbacks, in this frame, is told of a batch. Whether that changes what `facts` says."""
        if self.running is not None and self.running() is callbacks:
            return False
        self.running = weakref.ref(callbacks)
        return self.given.begins(loop)

    def tells_of(self, function: Any) -> Tells | None:
        """Also of the `train_step` of a model: `fit` has it compiled as it is. In a loop of the script's own nobody else tells of it."""
        return self._makes_steps if _is_step(function) else super().tells_of(function)

    def _makes_steps(self) -> bool:
        return any(self._in_method(method) is not None for method in ("fit", "train_on_batch"))

    def facts(self) -> dict[str, Any]:
        """Those of what computes, which that is, and what `fit` reads."""
        given = (None, None) if self.by_script else (self.given.kind, self.given.steps_per_epoch)
        own = {"waits_inside": self.waits_inside, "computes_with": backend_name() or None}
        return backend().facts() | own | dict(zip(("reads", "steps_per_epoch"), given, strict=True))

    def trainer(self) -> Any:
        """The model whose `fit` runs: of the same class whatever computes, but by another module."""
        return self._in_method("fit")

    def _in_method(self, method: str) -> Any:
        """The model in whose method the calling thread is; None where it is in none."""
        name = backend_name()
        return caller(f"keras.src.backend.{name}.trainer", f"{_CLASSES.get(name, '')}Trainer", method)

    def rank(self) -> tuple[int, int] | None:
        """As that says which computes."""
        return backend().rank()

    def has_compiled(self) -> bool:
        """As that says which computes."""
        return backend().has_compiled()

    def compilations(self) -> int | None:
        """As that says which computes."""
        return backend().compilations()

    def is_compiled(self, function: Any) -> bool:
        """As that says which computes."""
        return backend().is_compiled(function)

    def describe_optimizer(self, optimizer: Any) -> dict[str, Any]:
        """Of a model that trains, or of an optimizer that is called by itself."""
        trains = getattr(optimizer, "optimizer", optimizer)
        variables = getattr(optimizer, "trainable_variables", None) or getattr(trains, "_trainable_variables", None) or ()
        return {**self.describe_parameters(variables), "type": type(trains).__name__, "fused": None}

    def describe_parameters(self, parameters: Any) -> dict[str, Any]:
        """By their shapes: on JAX a variable has no value while `fit` runs."""
        found = list(parameters)
        shapes = ((str(variable.dtype), tuple(variable.shape)) for variable in found)
        return described(shapes, _device_of(found[0]) if found else None)


def _is_step(function: Any) -> bool:
    model = getattr(sys.modules.get("keras"), "Model", None)
    if model is None or type(function) is not MethodType or not issubclass(type(function.__self__), model):
        return False
    # Its name stays when it is decorated.
    return bool(held_by(function.__func__, "__name__") == "train_step")


def backend_name() -> str:
    """What Keras computes with: "tensorflow", "jax", "torch", "openvino"; empty where it is not imported, or is Keras 2."""
    says = getattr(getattr(sys.modules.get("keras"), "config", None), "backend", None)
    return "" if says is None else str(says())


def backend() -> Framework:
    """The framework that computes; one that says nothing where it is not known."""
    name = backend_name()
    return next((framework for framework in known_frameworks() if framework.name == name), NO_FRAMEWORK)


def _device_of(variable: Any) -> str | None:
    if backend_name() == JAX:
        # By now it has computed: nothing is initialised by asking.
        return str(sys.modules["jax"].default_backend())
    return device_of(variable.value)


FRAMEWORK: Final = Keras()
