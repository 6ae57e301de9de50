from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recorded import make_folder, read_records
from slowstep.record.recorder import Recorder
from slowstep.record.timing import batches
from slowstep.record.timing.batches import shape_in

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside import module as hook  # noqa: E402
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


def tensors(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(torch.zeros(shape) for shape in shapes)


PLAIN, RECURRENT = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.LSTM(4, 4))
CELLS = torch.nn.ModuleList([torch.nn.GRUCell(4, 4)])
BATCH_FIRST = torch.nn.Sequential(torch.nn.LSTM(4, 4, batch_first=True))


@pytest.mark.parametrize(
    ("module", "given", "made", "samples"),
    [
        (PLAIN, tensors((12, 3)), torch.zeros(12, 5), 12),
        (PLAIN, tensors((12, 64), (12, 64)), (torch.zeros(12, 64, 90), torch.tensor(1.0)), 12),
        (PLAIN, tensors((12, 3)), {"loss": torch.tensor(1.0), "logits": torch.zeros(12, 5)}, 12),
        (PLAIN, tensors((16, 64, 24)), torch.zeros(64), -1),
        (PLAIN, tensors((35, 20)), (torch.zeros(700, 90), torch.zeros(2, 20, 4)), -1),
        (PLAIN, tensors((12, 3)), torch.tensor(1.0), -1),
        (PLAIN, ("text",), torch.zeros(12, 5), -1),
        (RECURRENT, tensors((35, 20, 4)), torch.zeros(35, 20, 4), -1),
        (RECURRENT, tensors((12, 3, 8, 8)), torch.zeros(12, 5), 12),
        (CELLS, tensors((35, 20, 4)), torch.zeros(35, 20, 4), -1),
        (CELLS, tensors((12, 4)), torch.zeros(12, 5), 12),
        (BATCH_FIRST, tensors((12, 20, 4)), torch.zeros(12, 20, 4), 12),
    ],
    ids=["classes", "logits and a loss", "a dictionary", "kinds first", "time first, put together", "a mean loss", "no array",
         "time first", "images beside a sequence", "time first, by cells", "one time of a cell", "batch first"],
)  # fmt: skip
def test_samples_are_counted_where_input_and_output_are_alike_along_the_first_dimension(
    module: Any, given: tuple[Any, ...], made: Any, samples: int
) -> None:
    assert Models(torch).samples(module, shape_in(given), made) == samples


class Odd:
    @property
    def shape(self) -> Any:
        raise RuntimeError("no shape yet")


class MakesOdd(torch.nn.Linear):  # type: ignore[name-defined, misc]
    def forward(self, x: Any) -> Any:
        return Odd()


def test_a_call_is_recorded_without_its_samples_where_what_it_makes_cannot_be_read(tmp_path: Path) -> None:
    recorder = Recorder(make_folder(tmp_path / "run"), level=2)
    undo = hook.install(recorder)
    try:
        made = [model(torch.ones(3, 2)) for model in (MakesOdd(2, 2), torch.nn.Linear(2, 2))]
    finally:
        undo()
        recorder.stop("exit")

    forwards = [record for path in tmp_path.rglob("*.rec") for record in read_records(path) if record.kind == "FORWARD"]
    assert isinstance(made[0], Odd)
    assert [record.a for record in forwards] == [-1, 3]


@pytest.mark.parametrize("gradients", [True, False])
def test_what_a_model_is_given_is_looked_at_once_for_its_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gradients: bool) -> None:
    looked_at: list[type] = []
    look = batches._shape_in
    monkeypatch.setattr(batches, "_shape_in", lambda part, *more: looked_at.append(type(part)) or look(part, *more))
    recorder = Recorder(make_folder(tmp_path / "run"), level=2)
    undo = hook.install(recorder)
    try:
        with torch.set_grad_enabled(gradients):
            torch.nn.Linear(2, 2)(torch.ones(3, 2))
    finally:
        undo()
        recorder.stop("exit")

    assert looked_at == [tuple, torch.Tensor, torch.Tensor]
