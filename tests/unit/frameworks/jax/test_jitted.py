"""Which calls of jitted functions are updates, whether the device is idle, and that nothing stays behind."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from slowstep.frameworks.jax.inside import jitted  # noqa: E402
from slowstep.frameworks.jax.inside.jitted import JittedCalls  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.writing.format import CONTROL_BYTES, CONTROL_FILE  # noqa: E402

CALLS = 12
X = np.ones((8, 16), "f")
Loss = Callable[[Any, Any], Any]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    (tmp_path / CONTROL_FILE).write_bytes(b"\1" + bytes(CONTROL_BYTES - 1))
    recorder = Recorder(str(tmp_path), level=0)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    yield recorder
    recorder.stop("exit")


@pytest.fixture
def seen(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each function was called that trains."""
    found: Counter[str] = Counter()
    called = jitted.Updates.called

    def count(self: Any, trained: Any, *times: int) -> None:
        found[trained.name] += 1
        called(self, trained, *times)

    monkeypatch.setattr(jitted.Updates, "called", count)
    undo = jitted.install(recorder)
    yield found
    undo()


def loss_of(w: Any, x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w) ** 2)


def sgd(w: Any, x: Any) -> Any:
    loss, gradient = jax.value_and_grad(loss_of)(w, x)
    return w - 0.1 * gradient, loss


def test_a_function_that_takes_what_it_gave_trains_and_one_that_predicts_does_not(seen):
    step, predict = jax.jit(sgd), jax.jit(loss_of)
    w = jnp.ones((16, 1))
    for _ in range(CALLS):
        w, _ = step(w, X)
        predict(w, X)

    # Whether it does is known from the second call on.
    assert seen == {"sgd": CALLS - 1}


def test_parameters_whose_memory_is_given_away_are_seen_too(seen):
    step = jax.jit(sgd, donate_argnums=0)
    w = jnp.ones((16, 1))
    for _ in range(CALLS):
        w, _ = step(w, X)

    assert seen == {"sgd": CALLS - 1}


def test_of_gradients_and_updates_apart_the_update_is_the_step(seen):
    gradient_of = jax.jit(jax.grad(loss_of))

    @jax.jit
    def update(w: Any, gradient: Any) -> Any:
        return w - 0.1 * gradient

    w = jnp.ones((16, 1))
    for _ in range(CALLS):
        w = update(w, gradient_of(w, X))

    assert seen == {"update": CALLS - 1}


def test_methods_and_functions_with_wrappers_are_told_apart_by_what_they_are(seen):
    class Trainer:
        def __init__(self) -> None:
            self.w = jnp.ones((16, 1))
            self.call = jax.jit(self.step)

        @functools.wraps(sgd)
        def step(self, w: Any, x: Any) -> Any:
            return sgd(w, x)

    trainer = Trainer()
    for _ in range(CALLS):
        trainer.w, _ = trainer.call(trainer.w, X)

    assert seen == {"sgd": CALLS - 1}


def test_sums_of_metrics_and_keys_of_random_numbers_are_not_trained(seen):
    add = jax.jit(lambda total, value: total + value)
    split = jax.jit(lambda key: jax.random.split(key)[0])
    total, key = jnp.zeros(()), jax.random.PRNGKey(0)
    for _ in range(CALLS):
        total, key = add(total, 1.0), split(key)

    assert not seen


def test_calls_that_compile_and_calls_with_effects_count(seen):
    shapes, effects = jax.jit(sgd), jax.jit(lambda w, x: (jax.debug.callback(lambda: None), sgd(w, x))[1])
    w = jnp.ones((16, 1))
    for number in range(CALLS):
        w, _ = shapes(w, np.ones((number + 1, 16), "f"))
    assert seen == {"sgd": CALLS - 1}
    seen.clear()

    for _ in range(CALLS):
        w, _ = effects(w, X)
    assert seen == {"<lambda>": CALLS - 1}


def test_a_search_for_nan_is_called_as_well_and_does_not_push_us_out(seen):
    step = jax.jit(sgd)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jnp.log(-X)
    w = jnp.ones((16, 1))
    for _ in range(CALLS):
        w, _ = step(w, X)

    assert seen == {"sgd": CALLS - 1}


def test_nothing_stays_behind(recorder):
    api, pjit = sys.modules["jax._src.api"], sys.modules["jax._src.pjit"]
    before = api._post_hook_state, api._post_hook_state.value, pjit._run_python_pjit

    undo = jitted.install(recorder)
    assert api._post_hook_state.value is not None
    undo()

    assert (api._post_hook_state, api._post_hook_state.value, pjit._run_python_pjit) == before
    assert not recorder.device_probes


def test_the_device_is_idle_when_the_last_result_is_there_and_not_while_it_is_given_work(recorder):
    calls = JittedCalls(recorder)
    here = sys._getframe().f_code
    assert calls.is_idle(here, 0) is None

    result = jax.block_until_ready(jnp.ones(3) + 1)
    calls.called(sgd, (), {}, result, 0, 1)

    assert calls.is_idle(here, -7) is True
    (place,) = calls._places
    assert calls.is_idle(*place) is False


def test_no_more_of_the_scripts_arrays_is_kept_than_is_small(recorder):
    calls = JittedCalls(recorder)
    large = jnp.ones((1000, 1000))
    kept = weakref.ref(large)
    calls.called(sgd, (), {}, {"w": large}, 0, 1)
    assert calls.is_idle(sys._getframe().f_code, -7) is not None

    del large

    assert kept() is None
    assert calls.is_idle(sys._getframe().f_code, -7) is None
