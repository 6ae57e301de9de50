from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside.module import Models  # noqa: E402


class ByHand(torch.nn.Module):  # type: ignore[name-defined, misc]
    def __init__(self, wants: bool) -> None:
        super().__init__()
        self.weights = torch.zeros(2, requires_grad=wants)


class BuiltLate(torch.nn.Module):  # type: ignore[name-defined, misc]
    def forward(self, x: Any) -> Any:
        if not hasattr(self, "layer"):
            self.layer = torch.nn.Linear(2, 2)
        return self.layer(x)


def frozen() -> Any:
    return torch.nn.Linear(2, 2).requires_grad_(False)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: torch.nn.Linear(2, 2), True),
        (frozen, True),
        (lambda: torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sequential(torch.nn.Linear(2, 2))), True),
        (lambda: torch.jit.script(torch.nn.Linear(2, 2)), True),
        (lambda: torch.nn.LazyLinear(2), True),
        (lambda: ByHand(True), True),
        (lambda: torch.nn.Sequential(ByHand(True)), True),
        (lambda: ByHand(False), False),
        (torch.nn.CrossEntropyLoss, False),
        (lambda: torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Flatten()), False),
        (lambda: torch.nn.BatchNorm1d(2, affine=False), False),
    ],
    ids=["a layer", "a frozen one", "one inside", "a script", "a lazy one", "tensors of its own", "such ones inside", "constants", "a loss",
         "an augmentation", "statistics only"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_has_parameters_is_a_model(make: Callable[[], Any], expected: bool) -> None:
    models, module = Models(torch), make()

    assert [models.is_model(module) for _ in range(5)] == [expected] * 5


def test_a_model_may_make_its_parameters_in_its_first_call() -> None:
    models, module = Models(torch), BuiltLate()

    before = models.is_model(module)
    module(torch.zeros(1, 2))

    assert (before, models.is_model(module)) == (False, True)


def test_what_comes_to_lie_where_another_was_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    models, loss, layer = Models(torch), torch.nn.MSELoss(), torch.nn.Linear(2, 2)
    monkeypatch.setattr("slowstep.frameworks.torch.inside.module.id", lambda _: 1, raising=False)
    for _ in range(5):
        models.is_model(loss)

    assert models.is_model(layer)


def test_modules_that_are_made_in_every_step_fill_no_memory() -> None:
    models = Models(torch)
    kept = [torch.nn.MSELoss() for _ in range(2500)]

    for loss in kept:
        models.is_model(loss)

    assert len(models._known) <= 1000
