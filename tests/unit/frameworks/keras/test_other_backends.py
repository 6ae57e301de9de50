"""What levers of Keras' train function say where something else than TensorFlow computes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.keras.inside import _train_functions
from slowstep.frameworks.keras.inside.levers import batch_size, jit_compile, mixed_precision, run_eagerly_off, steps_per_execution
from slowstep.record.experiment.lever import LeverSpec, NotApplicable

OTHERS: dict[Any, LeverSpec] = {
    batch_size: LeverSpec(name="batch-size", value="64"),
    mixed_precision: LeverSpec(name="mixed-precision"),
    run_eagerly_off: LeverSpec(name="run-eagerly-off"),
    steps_per_execution: LeverSpec(name="steps-per-execution", value="4"),
}


@pytest.fixture
def computes(monkeypatch):
    """Have a `fit` of a model run, with this backend."""

    def with_backend(name: str, **model: Any) -> None:
        callbacks = SimpleNamespace(_model=SimpleNamespace(run_eagerly=False, **model))
        monkeypatch.setattr(_train_functions.FRAMEWORK, "running", lambda: callbacks)
        for module in (_train_functions, jit_compile):
            monkeypatch.setattr(module, "backend_name", lambda: name)

    return with_backend


def refused(lever: Any, spec: LeverSpec) -> str:
    with pytest.raises(NotApplicable) as raised:
        lever.prepare(None, spec)
    return str(raised.value)


def test_jit_compile_is_on_already_where_jax_computes(computes):
    computes("jax", jit_compile=True)

    assert refused(jit_compile, LeverSpec(name="jit-compile")) == jit_compile.COMPILED


def test_jit_compile_that_the_script_has_turned_off_cannot_be_made_with_jax(computes):
    computes("jax", jit_compile=False)

    assert refused(jit_compile, LeverSpec(name="jit-compile")) == _train_functions.OTHER_BACKEND.format("JAX")


@pytest.mark.parametrize("lever", OTHERS)
def test_others_say_what_computes(computes, lever):
    computes("torch")

    assert refused(lever, OTHERS[lever]) == _train_functions.OTHER_BACKEND.format("PyTorch")
