"""What is told of batches and updates, on classes that stand for Keras' own: no framework is imported."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from recorded import make_folder
from slowstep.frameworks.jax.inside._framework import FRAMEWORK as JAX
from slowstep.frameworks.keras.inside import _framework as framework
from slowstep.frameworks.keras.inside import fit
from slowstep.record.experiment.switch import Switch
from slowstep.record.framework import NO_FRAMEWORK, told_by_others
from slowstep.record.recorder import Recorder


class CallbackList:
    def __init__(self, model: Any) -> None:
        self._model = model
        self.told: list[tuple[Any, ...]] = []

    def on_train_batch_begin(self, batch: Any, logs: Any = None) -> None:
        if batch == "fails":
            raise KeyError("the user's own")
        self.told.append(("begin", batch, logs))

    def on_train_batch_end(self, batch: Any, logs: Any = None) -> None:
        self.told.append(("end", batch, logs))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.told.append(("epoch", epoch, logs))


class Model:
    run_eagerly = False
    train_function = None

    def train_on_batch(self, x: Any) -> Any:
        return x


class BaseOptimizer:
    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        return grads, trainable_variables


Install = Callable[..., Recorder]
Told = list[tuple[Any, ...]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Calls that train with the number of their updates, and optimizers that were called."""
    found: Told = []
    monkeypatch.setattr(fit.Updates, "called", lambda _, trained, *times: found.append((type(trained).__name__, *times[2:])))
    after = lambda optimizer, args, kwargs: found.append((type(optimizer).__name__,))  # noqa: E731
    monkeypatch.setattr(fit.Updates, "build_hooks", lambda _: (lambda *_: None, after))
    monkeypatch.setattr(fit.Updates, "note_facts", lambda _: None)
    return found


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> Iterator[Install]:
    """Installs the hook on the stand-ins, for what Keras computes with."""
    before = {kind: dict(vars(kind)) for kind in (CallbackList, Model, BaseOptimizer)}
    undos = []

    def install(backend: str = "tensorflow", **asked: Any) -> Recorder:
        optimizers = SimpleNamespace(base_optimizer=SimpleNamespace(BaseOptimizer=BaseOptimizer))
        keras = SimpleNamespace(Model=Model, config=SimpleNamespace(backend=lambda: backend), src=SimpleNamespace(optimizers=optimizers))
        tensorflow = SimpleNamespace(executing_eagerly=lambda: True, nest=SimpleNamespace(flatten=lambda _: []))
        module = ModuleType(fit.MODULE)
        module.CallbackList = CallbackList  # type: ignore[attr-defined]
        for name, stands in (("keras", keras), (fit.MODULE, module), ("tensorflow", tensorflow)):
            monkeypatch.setitem(sys.modules, name, stands)  # type: ignore[arg-type]
        recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
        recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
        vars(recorder).update(asked)
        undos.extend([lambda: recorder.stop("test"), fit.install(recorder)])
        return recorder

    yield install
    for undo in reversed(undos):
        undo()
    assert {kind: dict(vars(kind)) for kind in before} == before
    assert (fit.FRAMEWORK.running, fit.FRAMEWORK.waits_inside, fit.FRAMEWORK.has_optimizers) == (None, False, False)


def test_whoever_passes_arguments_by_name_gets_the_same(install, told):
    install()
    callbacks = CallbackList(Model())

    callbacks.on_train_batch_begin(batch=5, logs={})
    callbacks.on_train_batch_end(batch=9, logs={"loss": 1})
    callbacks.on_epoch_end(epoch=2, logs={"loss": 1})

    assert callbacks.told == [("begin", 5, {}), ("end", 9, {"loss": 1}), ("epoch", 2, {"loss": 1})]
    assert Model().train_on_batch(x=3) == 3
    assert BaseOptimizer().apply(grads=1, trainable_variables=2) == (1, 2)
    assert told == [("Model", 5), ("Model",), ("BaseOptimizer",)]


def test_a_name_that_the_method_does_not_know_is_refused_by_it(install):
    install()

    with pytest.raises(TypeError, match=r"on_epoch_end.*batch"):
        CallbackList(Model()).on_epoch_end(batch=1)


def fit_once(callbacks: CallbackList, train: Callable[[], Any]) -> None:
    """As `fit` does: the same frame begins a batch, and is left by what is raised in it."""
    callbacks.on_train_batch_begin(0)
    train()
    callbacks.on_train_batch_end(0)


def test_of_an_eager_fit_the_call_is_the_step_and_no_update_in_it(install, told):
    install()

    fit_once(CallbackList(Model()), lambda: BaseOptimizer().apply([]))

    assert told == [("Model", 1)]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_updates_of_a_loop_of_the_scripts_own_are_told_after_a_fit_that_was_left(install, told, kind):
    install()

    def fail() -> None:
        raise kind

    with pytest.raises(kind):
        fit_once(CallbackList(Model()), fail)
    BaseOptimizer().apply([])

    assert told == [("BaseOptimizer",)]
    assert fit.FRAMEWORK.has_optimizers


def test_updates_of_another_thread_are_no_part_of_a_fit(install, told):
    install()

    def elsewhere() -> None:
        thread = threading.Thread(target=lambda: BaseOptimizer().apply([]))
        thread.start()
        thread.join()

    fit_once(CallbackList(Model()), elsewhere)

    assert told == [("BaseOptimizer",), ("Model", 1)]


def test_a_list_of_callbacks_of_the_scripts_own_changes_nothing(install, told):
    class Own(CallbackList):
        def on_train_batch_begin(self, batch: Any, logs: Any = None) -> None:
            super().on_train_batch_begin(batch, logs)

    install()

    fit_once(Own(Model()), lambda: BaseOptimizer().apply([]))

    assert told == [("Model", 1)]


def test_a_batch_whose_begin_a_callback_has_refused_has_none(install, told):
    install()
    callbacks = CallbackList(Model())

    with pytest.raises(KeyError, match="the user's own"):
        callbacks.on_train_batch_begin("fails")
    callbacks.on_train_batch_end(0)

    assert told == []


def test_a_loop_that_numbers_its_batches_otherwise_makes_one_update_in_each(install, told):
    install()
    callbacks = CallbackList(Model())

    callbacks.on_train_batch_begin("first")
    callbacks.on_train_batch_end("first")

    assert told == [("Model", 1)]


def test_of_calls_and_eager_updates_those_are_the_steps_that_are_far_more(install):
    install()
    said = []
    for train in [*[Model().train_on_batch] * 3, *[BaseOptimizer().apply] * 7, *[Model().train_on_batch] * 12]:
        train([])
        said.append(fit.FRAMEWORK.has_optimizers)

    assert said == [*[False] * 3, *[False] * 6, True, *[True] * 11, False]


def test_what_a_short_fit_has_read_is_not_said_of_a_loop_of_train_on_batch_after_it(install, monkeypatch):
    install()
    monkeypatch.setattr(framework, "backend", lambda: NO_FRAMEWORK)
    callbacks, said = CallbackList(Model()), []
    for batch in range(2):
        callbacks.on_train_batch_begin(batch)
        callbacks.on_train_batch_end(batch)
    fit.FRAMEWORK.given.kind = "arrays"
    for _ in range(5):
        Model().train_on_batch([])
        said.append(fit.FRAMEWORK.facts()["reads"])

    assert said == [*["arrays"] * 4, None]


@pytest.mark.parametrize(("running", "told"), [("fit", True), ("train_on_batch", True), ("evaluate", False), (None, False)])
def test_of_a_models_own_train_step_keras_tells_where_it_calls_it_though_another_framework_compiles_it(install, monkeypatch, running, told):
    class Own(Model):
        def train_step(self) -> None: ...

        def predict_step(self) -> None: ...

    class Decorated(Model):
        @functools.wraps(Own.train_step)
        def wrapper(self) -> None: ...

        train_step = wrapper

    def train_step() -> None: ...

    install()
    monkeypatch.setattr(type(fit.FRAMEWORK), "_in_method", lambda _, method: Own() if method == running else None)

    for model in (Own(), Decorated()):
        assert [tells() for tells in told_by_others(model.train_step, JAX)] == [told]
    assert not any(told_by_others(function, JAX) for function in (Own().predict_step, train_step, Own.train_step, len))


@pytest.mark.parametrize("wrap", [lambda function: function, lambda function: functools.wraps(SimpleNamespace(f=function).f)(lambda: None)])
def test_of_keras_own_functions_keras_tells_wherever_they_are_called(install, wrap):
    """`evaluate` and `predict` of JAX hand their state on, and train nothing."""
    install()
    code = compile(
        "def test_step(): ...\nclass A:\n  def step(self): ...\nheld = A().step", "/python-packages/keras/src/trainer.py", "exec"
    )
    exec(code, found := dict[str, Any]())

    for function in (found["test_step"], found["held"]):
        assert [tells() for tells in told_by_others(wrap(function), JAX)] == [True]


@pytest.mark.parametrize("backend", ["tensorflow", "torch"])
def test_each_update_is_told_to_what_switches_levers_and_which_fit_runs(install, monkeypatch, backend):
    updated: list[Any] = []
    monkeypatch.setattr(Switch, "updated", lambda _, trained, wait=None: updated.append(type(trained).__name__))
    install(backend, experiment=True)
    callbacks, running = CallbackList(Model()), []

    fit_once(callbacks, lambda: (BaseOptimizer().apply([]), running.append(fit.FRAMEWORK.running())))

    assert updated == {"tensorflow": ["Model"], "torch": ["BaseOptimizer"]}[backend]
    assert running == [callbacks]
