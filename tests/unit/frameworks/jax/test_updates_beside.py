"""Which updates that a script makes beside what is jitted are steps: those that a library applies, and those by operations of its own."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from slowstep.frameworks.jax.inside import _trainings, applied, gradients, jitted  # noqa: E402
from slowstep.frameworks.jax.inside._by_hand import UpdatesByHand  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

STEPS = 12
OF_OPTAX = next(hook for hook in applied.HOOKS if hook.module == "optax")
X = np.ones((8, 16), "f")


@pytest.fixture
def optax(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What stands for the library: its function as it is called by two names, one of which was imported before."""
    library, inner = ModuleType("optax"), ModuleType("optax._src.update")

    def apply_updates(params: Any, updates: Any) -> Any:
        return jax.tree.map(lambda p, u: p + u, params, updates)

    library.apply_updates = inner.apply_updates = apply_updates  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "optax", library)
    monkeypatch.setitem(sys.modules, "optax._src.update", inner)
    return library


@pytest.fixture
def seen(recorder: Recorder, optax: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[Any]]:
    """How often each of what trains was called."""
    found: Counter[Any] = Counter()
    called = _trainings.Updates.called

    def count(self: Any, trained: Any, *times: int) -> None:
        found[trained] += 1
        called(self, trained, *times)

    monkeypatch.setattr(_trainings.Updates, "called", count)
    undos = [hook.install(recorder) for hook in (gradients.HOOK, jitted.HOOK, OF_OPTAX)]
    yield found
    for undo in reversed(undos):
        undo()


def loss_of(params: Any, x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ params["w"] + params["b"]) ** 2)


def network() -> dict[str, Any]:
    return {"w": jnp.ones((16, 4)), "b": jnp.zeros(4)}


def descend(params: Any, gradient: Any) -> Any:
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)


def test_updates_that_are_applied_beside_what_is_jitted_are_steps_and_those_within_it_are_not(seen, optax):
    gradient_of = jax.jit(jax.grad(loss_of))
    jitted_apply = jax.jit(lambda params: optax.apply_updates(params, params)["b"].sum())
    params = network()
    for _ in range(STEPS):
        params = optax.apply_updates(params, jax.tree.map(lambda g: -0.1 * g, gradient_of(params, X)))
        jitted_apply(params)

    assert list(seen.values()) == [STEPS]


def test_each_of_two_networks_has_its_own_updates_though_one_function_of_the_scripts_makes_them(seen, optax):
    def update(params: Any, gradient: Any) -> Any:
        return optax.apply_updates(params, gradient)

    gradient_of = jax.jit(jax.grad(loss_of))
    first, second = network(), network()
    for _ in range(STEPS):
        first = update(first, gradient_of(first, X))
        second = update(second, gradient_of(second, X))

    assert list(seen.values()) == [STEPS, STEPS]


def test_numbers_that_are_no_parameters_are_applied_for_nothing(seen, optax):
    for _ in range(STEPS):
        optax.apply_updates({"count": jnp.arange(3), "scale": jnp.ones(())}, {"count": 1, "scale": 1.0})

    assert not seen


def test_the_end_of_an_update_by_hand_is_a_step_also_where_a_gradient_is_inside_what_is_jitted(seen):
    gradient_of = jax.jit(lambda params, x: jax.value_and_grad(loss_of)(params, x))
    params = network()
    for number in range(STEPS):
        _, gradient = gradient_of(params, number * X)
        params = descend(params, gradient)

    # The first is followed, and it is known at the second gradient which operation ended it.
    assert list(seen.values()) == [STEPS - 1]


def test_gradients_that_are_summed_first_make_one_step(seen):
    gradient_of = jax.jit(jax.grad(loss_of))
    params = network()
    for _ in range(STEPS):
        total = gradient_of(params, X)
        for _ in range(3):
            total = jax.tree.map(jnp.add, total, gradient_of(params, X))
        params = descend(params, total)

    assert list(seen.values()) == [STEPS - 1]


def test_momentum_by_hand_updates_too(seen):
    gradient_of = jax.jit(jax.grad(loss_of))
    params, speed = network(), jax.tree.map(jnp.zeros_like, network())
    for _ in range(STEPS):
        speed = jax.tree.map(lambda s, g: 0.9 * s + g, speed, gradient_of(params, X))
        params = descend(params, speed)

    assert list(seen.values()) == [STEPS - 1]


def test_a_simulation_trains_nothing_though_its_forces_are_the_gradient_of_an_energy(seen):
    force = jax.jit(lambda x: -jax.grad(lambda x: jnp.sum(x * x))(x))
    x, v = jnp.ones((16, 3)), jnp.zeros((16, 3))
    for _ in range(STEPS):
        v = v + 0.1 * force(x)
        x = x + 0.1 * v

    assert not seen


@pytest.mark.slow
def test_a_simulation_of_several_fields_whose_rates_are_no_gradients_trains_nothing(seen):
    rates = jax.jit(lambda state: {"h": -state["h"], "u": state["h"][:-1]})
    state = {"h": jnp.ones(16), "u": jnp.ones(15)}
    for _ in range(STEPS):
        state = jax.tree.map(lambda s, r: s + 0.1 * r, state, rates(state))

    assert not seen


def test_gradients_by_the_input_train_nothing(seen):
    gradient_of = jax.jit(jax.grad(loss_of, argnums=1))
    params = network()
    for number in range(STEPS):
        x = jnp.full((8, 16), float(number))
        x = x + 0.1 * jnp.sign(gradient_of(params, x))
        jax.jit(loss_of)(params, x)

    assert not seen


def test_where_a_jitted_function_updates_by_itself_nothing_is_followed_any_more(recorder, monkeypatch):
    made: list[Any] = []
    monkeypatch.setattr(jitted, "UpdatesByHand", lambda recorder: made.append(UpdatesByHand(recorder)) or made[-1])
    undos = [hook.install(recorder) for hook in (gradients.HOOK, jitted.HOOK)]
    step = jax.jit(lambda params, x: descend(params, jax.grad(loss_of)(params, x)))
    params, followed = network(), []
    for _ in range(3):
        params = step(params, X)
        followed.append(made[0].is_following)
    for undo in reversed(undos):
        undo()

    assert followed == [True, False, False]


def test_what_is_followed_in_vain_is_given_up(seen, recorder, monkeypatch):
    monkeypatch.setattr("slowstep.frameworks.jax.inside._descent._MOST_OPERATIONS", 30)
    gradient_of = jax.jit(jax.grad(loss_of))
    calls = jitted.JittedCalls(recorder)
    params, function = network(), calls._meet(loss_of)
    calls._by_hand.gave_gradients(function, "loss_of", (params, X), gradient_of(params, X), may_begin=True)
    assert calls._by_hand.is_following

    for _ in range(31):
        calls._by_hand.operated(jnp.add, (params["b"], 1.0), params["b"] + 1.0, sys._getframe())

    assert not calls._by_hand.is_following
    assert not seen


def test_nothing_of_it_stays_behind(recorder, optax):
    api, original = sys.modules["jax._src.api"], optax.apply_updates
    before = {name: vars(api).get(name) for name in ("vjp", "_vjp")}

    undos = [hook.install(recorder) for hook in (gradients.HOOK, OF_OPTAX)]
    assert optax.apply_updates is not original
    assert sys.modules["optax._src.update"].apply_updates is optax.apply_updates
    assert functools.reduce(lambda f, _: getattr(f, "__wrapped__", f), range(3), optax.apply_updates) is original
    for undo in reversed(undos):
        undo()

    assert optax.apply_updates is sys.modules["optax._src.update"].apply_updates is original
    assert {name: vars(api).get(name) for name in ("vjp", "_vjp")} == before
