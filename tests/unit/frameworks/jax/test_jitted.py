"""Which calls of jitted functions are updates, whether the device is idle, and that nothing stays behind."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from slowstep.frameworks.jax.inside import _trainings, gradients, jitted  # noqa: E402
from slowstep.frameworks.jax.inside.jitted import JittedCalls  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

CALLS = 12
X = np.ones((8, 16), "f")
Loss = Callable[[Any, Any], Any]


@pytest.fixture
def seen(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each function was called that trains."""
    found: Counter[str] = Counter()
    called = _trainings.Updates.called

    def count(self: Any, trained: Any, *times: int) -> None:
        found[trained.name] += 1
        called(self, trained, *times)

    monkeypatch.setattr(_trainings.Updates, "called", count)
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


def test_what_only_predicts_trains_nothing_though_arrays_come_to_lie_where_others_lay(seen):
    predict = jax.jit(lambda w, x: (x @ w, (x @ w).sum()))
    augment = jax.jit(lambda x: x + 0.1)
    w, rng = jnp.ones((16, 16)), np.random.default_rng(0)
    for _ in range(5 * CALLS):
        x = jnp.asarray(rng.normal(size=(16, 16)).astype("f"))
        predict(w, augment(x))
        del x

    assert not seen


def test_a_function_may_be_called_for_nothing_first(seen):
    step = jax.jit(sgd)
    w = jnp.ones((16, 1))
    for _ in range(10):
        step(w, X)
    for _ in range(50):
        w, _ = step(w, X)

    assert seen["sgd"] >= 40


def test_a_function_that_is_traced_inside_another_one_is_no_call(seen):
    step = jax.jit(lambda state, x: {"w": sgd(state["w"], x)[0]})
    twice = jax.jit(lambda state, x: step(step(state, x), x))
    state = {"w": jnp.ones((300, 300))}
    for number in range(CALLS):
        state = twice(state, np.ones((number % 4 + 1, 300), "f"))

    assert seen == {"<lambda>": CALLS - 1}


def test_a_way_of_calls_with_other_parameters_is_passed_through_and_one_that_tells_less_is_left_alone(recorder, monkeypatch):
    pjit = sys.modules["jax._src.pjit"]

    def as_in_0_9_0(p, args_flat, fun, jit_info, args, kwargs):
        return fun(*args, **kwargs), args_flat, p, jit_info

    monkeypatch.setattr(pjit, "_run_python_pjit", as_in_0_9_0)
    undo = jitted.install(recorder)
    assert pjit._run_python_pjit(1, 2, max, 3, (4, 5), {}) == (5, 2, 1, 3)
    undo()
    assert pjit._run_python_pjit is as_in_0_9_0

    monkeypatch.setattr(pjit, "_run_python_pjit", lambda p: p)
    undo = jitted.install(recorder)
    assert pjit._run_python_pjit(7) == 7
    undo()


def test_of_several_functions_that_hand_on_their_results_it_is_said_which_make_steps(seen, recorder, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(recorder, "health", lambda kind, **_: said.append(kind.name))
    step, decode = jax.jit(sgd), jax.jit(lambda w, h: jnp.tanh(h @ w))
    w, h = jnp.ones((16, 16)), jnp.ones((4, 16))
    for _ in range(CALLS):
        w, _ = step(w, X)
        h = decode(w, h)

    assert set(seen) == {"sgd", "<lambda>"}
    assert said == ["several-functions-hand-on"]


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

    step = jax.jit(sgd)
    result = jax.block_until_ready(step(jnp.ones((16, 1)), X))
    calls.returned(step, (), {}, result)

    assert calls.is_idle(here, -7) is True
    ((_, at),) = calls._places
    assert calls.is_idle(here, at) is False


def test_a_function_that_is_gone_is_not_taken_for_one_that_lies_where_it_lay(recorder):
    calls = JittedCalls(recorder)
    for number in range(3):
        step = jax.jit(lambda w, number=number: w + number)
        calls.returned(step, (), {}, step(X))
        assert [known() for known, _ in calls._jitted.values()] == [step]
        del step

    assert not calls._jitted


def test_no_more_of_the_scripts_arrays_is_kept_than_is_small(recorder):
    calls = JittedCalls(recorder)
    large = jnp.ones((1000, 1000))
    kept = weakref.ref(large)
    calls.returned(jax.jit(sgd), (), {}, {"w": large})
    assert calls.is_idle(sys._getframe().f_code, -7) is not None

    del large

    assert kept() is None
    assert calls.is_idle(sys._getframe().f_code, -7) is None


def test_what_a_call_runs_is_noted_of_a_function_that_trains_and_of_each_of_its_shapes(recorder, monkeypatch):
    noted: list[dict[str, Any]] = []
    monkeypatch.setattr(recorder, "introduce", lambda note: noted.append(note) if note["kind"] == "operations" else None)
    undos = [gradients.install(recorder), jitted.install(recorder)]
    try:
        # What another test has traced is not traced again.
        own_loss = types.FunctionType(loss_of.__code__, globals(), "own_loss")
        own_step = types.FunctionType(sgd.__code__, {**globals(), "loss_of": own_loss}, "own_step")
        step, judged, w = jax.jit(own_step), jax.jit(jax.grad(own_loss)), jnp.ones((16, 1))
        for rows in (8, 8, 8, 4):
            w, _ = step(w, X[:rows])
            judged(w, X)
    finally:
        for undo in undos:
            undo()

    assert len(noted) == 2
    assert len({note["function"] for note in noted}) == 1
    assert all(note["framework"] == "jax" and note["most"] > 5 and note["elements"] in (16 + 8 * 16, 16 + 4 * 16) for note in noted)
