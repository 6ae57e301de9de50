"""The function that Keras' `fit` calls for each batch with TensorFlow, made a second time otherwise: levers exchange the two."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final

from slowstep.frameworks.keras.inside._framework import FRAMEWORK, JAX, TENSORFLOW, TORCH, backend_name
from slowstep.frameworks.tensorflow.inside._dispatches import runs_functions_eagerly
from slowstep.frameworks.tensorflow.inside._input.own_errors import is_of_input
from slowstep.frameworks.tensorflow.inside.fetches import CountedFetches
from slowstep.record.experiment.lever import OWN_ERROR, Change, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.timing.tracebacks import hide_own_frames

_FUNCTION: Final = "train_function"
_OWN: Final = "keras.src."
# Calls until one is like the next: the first is traced, and one more where what that has made is different.
SETTLING: Final = 3
MAKES_ITSELF: Final = "the model makes its train function itself"
NO_MAKER: Final = "this version of Keras has nothing that makes another train function (Model._make_function)"
SEVERAL_REPLICAS: Final = "several replicas train in it"
CANNOT_BE_TRACED: Final = "the step cannot be traced as it is ({})"
OTHER_BACKEND: Final = "Keras computes with {} here, and the call that trains is exchanged with TensorFlow alone"
# Of one batch: what callbacks are told of it.
TrainStep = Callable[[Any], Any]
_NAMES: Final = {JAX: "JAX", TORCH: "PyTorch"}


def running_model() -> Any:
    """The model whose `fit` runs, whatever computes; None where none does."""
    running = None if FRAMEWORK.running is None else FRAMEWORK.running()
    return None if running is None else vars(running).get("_model")


def model_in_fit(otherwise: str) -> Any:
    """The model whose `fit` runs with TensorFlow, by the train function that Keras makes. Raises NotApplicable, with `otherwise` where no
    `fit` runs.
    """
    model = running_model()
    if model is None:
        raise NotApplicable(otherwise)
    if (name := backend_name()) != TENSORFLOW:
        raise NotApplicable(OTHER_BACKEND.format(_NAMES.get(name, name)))
    return model


def traced_model(no_fit: str, eager: str) -> Any:
    """That model, whose train function can be exchanged for another one. Raises NotApplicable where none is, with `no_fit` where no `fit`
    runs, and `eager` where its steps are not traced.
    """
    model = model_in_fit(no_fit)
    check_exchangeable(model)
    if model.run_eagerly or runs_functions_eagerly():
        raise NotApplicable(eager)
    return model


def check_exchangeable(model: Any) -> None:
    """Raises NotApplicable where its train function is not made as Keras makes it, or cannot be made again, or several replicas call it."""
    makers = [getattr(type(model), name, None) for name in ("make_train_function", "_make_function")]
    if not all(str(getattr(maker, "__module__", "")).startswith(_OWN) for maker in makers if maker is not None):
        raise NotApplicable(MAKES_ITSELF)
    if None in makers:
        raise NotApplicable(NO_MAKER)
    if replicas_of(model) != 1:
        raise NotApplicable(SEVERAL_REPLICAS)


def replicas_of(model: Any) -> int:
    """How many replicas of a model with TensorFlow train together."""
    return int(getattr(model.distribute_strategy, "num_replicas_in_sync", 1))


class TrainFunction(Change):
    """Another train function of a model, made of its `train_step`, or another `step`, while it has the given attributes;
    `effect` counts its calls.

    `settling` calls are made of it before it is ready: to trace it takes seconds, which no block is to hold. Where it cannot be traced the
    step is made as it was, and the arm is given up at the next boundary. Meanwhile functions are `traced` inside of that context.
    """

    def __init__(
        self,
        training: Training,
        model: Any,
        attributes: Mapping[str, Any],
        *,
        settling: int,
        traced: Callable[[], AbstractContextManager[None]] = nullcontext,
        step: TrainStep | None = None,
    ) -> None:
        self._step: TrainStep = step or model.train_step
        self._model, self._attributes, self._settling, self._context = model, attributes, settling, traced
        self._other: Any = self._made()
        # None while it is off.
        self._original: Any = None
        self._exchanged: Any = None
        self._calls, self._is_ready = 0, False
        self._broken: Exception | None = None
        # How the input ends is no fault of the function's.
        self._passed_on: tuple[type[Exception], ...] = (StopIteration, sys.modules["tensorflow"].errors.OutOfRangeError)
        self._recorder = training.recorder
        self._fetches = training.recorder.shared(CountedFetches)

    def ready(self) -> bool:
        """Whether it is traced. Raises NotApplicable where it cannot be."""
        if not self._is_ready:
            self.each_step()
            self._is_ready = self._calls >= self._settling
            if self._is_ready:
                self.off()
        return self._is_ready

    def on(self) -> None:
        """From the next batch on. What stands for the function knows for good what it stands for: the script, or another lever, may have
        put a function of its own around it, which then stays and calls it.
        """
        self._original, self._calls = getattr(self._model, _FUNCTION), 0
        self._exchanged = partial(self._call, self._original)
        self._fetches.stands_for(self._exchanged, self._original)
        setattr(self._model, _FUNCTION, self._exchanged)

    def off(self) -> None:
        """Put the function back, unless Keras or the script has made another one meanwhile."""
        if self._original is not None and vars(self._model).get(_FUNCTION) is self._exchanged:
            setattr(self._model, _FUNCTION, self._original)
        self._original = self._exchanged = None

    def each_step(self) -> None:
        """Raises NotApplicable where the step could not be traced."""
        if self._broken is not None:
            raise NotApplicable(self._why(self._broken))

    def _why(self, error: Exception) -> str:
        """What is said of a step that could not be traced."""
        return CANNOT_BE_TRACED.format(type(error).__name__)

    def settled(self) -> bool:
        """Whether it was called since it is on."""
        return self._original is None or self._calls > 0

    def remove(self) -> None:
        """Put the function back where it was never ready, and keep nothing of the other one."""
        self.off()
        self._other = None

    def _call(self, original: Any, iterator: Any) -> Any:
        try:
            return self._called_for(original, iterator)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    def _called_for(self, original: Any, iterator: Any) -> Any:
        if original is not self._original:
            # It is off, or on again with another function.
            return original(iterator)
        if not self._is_tried():
            return self._as_it_was(original, iterator)
        try:
            result = self._called(iterator)
        except Exception as error:  # whatever cannot be traced goes on as it was; the arm is given up at the next boundary
            if self._is_passed_on(error):
                raise
            self._broken = error
            return self._as_it_was(original, iterator)
        self._calls += 1
        self.effect += self._is_ready
        return result

    def _is_passed_on(self, error: Exception) -> bool:
        """Whether the function is not at fault: the input has ended, or its pipeline has raised, as it would have without the lever."""
        if is_of_input(error):
            self._recorder.note({"kind": OWN_ERROR, "error": type(error).__name__})
            return True
        return isinstance(error, self._passed_on)

    def _is_tried(self) -> bool:
        """Whether this call is the other function's, as far as it can be made and told. Raises nothing."""
        try:
            return self._broken is None and self._is_wanted()
        except Exception as error:  # the border: the arm is given up at the next boundary, and nothing raised into the training
            self._broken = error
            return False

    def _called(self, iterator: Any) -> Any:
        """The other function's, which may be traced by this call."""
        with self._context():
            return self._other(iterator)

    def _is_wanted(self) -> bool:
        """Whether this call is to be the other function's."""
        return True

    def _as_it_was(self, original: Any, iterator: Any) -> Any:
        return original(iterator)

    def _made(self) -> Any:
        with having(self._model, self._attributes):
            return self._model._make_function(self._step)


def begun(change: TrainFunction) -> TrainFunction:
    """The change, which is traced from the next batch on: last, once all of it is made. Raises what `on` does, with nothing left behind."""
    try:
        change.on()
    except BaseException:
        change.remove()
        raise
    return change


@contextmanager
def having(model: Any, attributes: Mapping[str, Any]) -> Iterator[None]:
    """A model has these attributes inside."""
    before = {name: getattr(model, name) for name in attributes}
    _set(model, attributes)
    try:
        yield
    finally:
        _set(model, before)


def _set(model: Any, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(model, name, value)
