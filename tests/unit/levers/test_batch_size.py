from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler

from made_trainings import AS_IS, Samples, Walked, loader, plan_of, walk
from slowstep.frameworks.torch.inside._answers import compiled
from slowstep.levers._input import room, size_peaks
from slowstep.levers._input.baked import find_baked


class Own(BatchSampler):
    """A batch sampler of the script's own."""


def features(some: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(some).T.contiguous()


def walked(folder: Path, made: Any, lever: str = "batch-size=8", **settings: Any) -> Walked:
    came = walk(folder / "r", plan_of([lever], [AS_IS, 1, AS_IS, 1]), lambda script: script.train(made), **settings)
    assert came.done
    assert came.faults == {}
    return came


def samples(came: Walked, arm: int) -> set[int]:
    """Samples in an arm's counted steps."""
    steps = came.steps
    return set(steps.samples[(steps.arm == arm) & ~steps.settling].tolist())


@pytest.fixture
def script_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes a text the script that is running."""

    def make(text: str) -> None:
        path = tmp_path / "train.py"
        path.write_text(text)
        main = types.ModuleType("__main__")
        main.__file__ = str(path)
        monkeypatch.setitem(sys.modules, "__main__", main)

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("size", "workers"), [(2, 1), (8, 0), (8, 2)])
def test_samples_and_peaks_of_memory_are_known_per_size(size: int, workers: int, tmp_path: Path) -> None:
    came = walked(tmp_path, loader(num_workers=workers), f"batch-size={size}")

    assert samples(came, AS_IS) == {4}
    assert samples(came, 1) == {size}
    facts = came.effect()[1]
    assert (facts["batch_size"], facts["own_batch_size"], facts["peak_of"]) == (size, 4, "process")
    assert facts["peak_bytes"] > 1 << 20
    assert facts["own_peak_bytes"] > 1 << 20


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"num_workers": 0}, marks=pytest.mark.slow),
        pytest.param({"num_workers": 1}, marks=pytest.mark.slow),
        {"num_workers": 1, "persistent_workers": True},
    ],
)
def test_its_loader_has_epochs_of_its_own_and_goes_on_through_those_of_the_script(arguments: dict[str, Any], tmp_path: Path) -> None:
    """Twelve batches of 4 are an epoch of the script, six of 8 are one of its own."""
    made = loader(Samples(48), **arguments)
    came = walk(tmp_path / "r", plan_of(["batch-size=8"], [1, AS_IS, 1], steps=20), lambda script: script.train(made))

    assert came.done
    assert came.faults == {}
    assert samples(came, 1) == {8}
    effect, facts = came.effect()
    assert facts["epoch_changes"] == (effect - 1) // 6


@pytest.mark.slow
def test_where_nobody_knows_how_long_its_epochs_are_they_end_with_those_of_the_script(tmp_path: Path) -> None:
    class Streamed(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter(torch.ones(48, 4))

    def train(script: Any) -> None:
        made = loader(Streamed(), num_workers=1)
        # Epochs without a batch would never be over.
        for _ in range(50):
            for batch in made:
                if not script.step(batch):
                    return

    came = walk(tmp_path / "r", plan_of(["batch-size=8"], [1, AS_IS, 1], steps=20), train)

    assert came.done
    assert came.faults == {}
    assert 8 in samples(came, 1)
    assert came.effect()[1]["epoch_changes"] >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("own", "asked"), [(4, 128), (128, 4)])
def test_a_peak_is_that_of_its_size(own: int, asked: int, tmp_path: Path) -> None:
    """A step takes 1 MiB a sample; 64 of them show beside all else that this process holds."""

    def train(script: Any) -> None:
        for batch in loader(batch_size=own):
            torch.zeros(len(batch), 1 << 18).add_(1)
            if not script.step(batch):
                return

    came = walk(tmp_path / "r", plan_of([f"batch-size={asked}"], [1]), train, lead_in=8)

    facts = came.effect()[1]
    larger = facts["peak_bytes"] - facts["own_peak_bytes"]
    assert (larger if asked > own else -larger) > 64 << 20


def test_a_size_that_needs_more_memory_than_there_is_is_a_data_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_peaks.Peak, "free_bytes", lambda self: 1000)
    monkeypatch.setattr(room, "resident_peak_bytes", lambda: (room.resident_bytes() or 0) + (64 << 20))

    came = walked(tmp_path, loader())

    assert came.became() == ["not applicable"]
    assert "steps of 8 samples would need about" in came.reason()
    assert came.reason().endswith("out of memory is to be expected")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda: DataLoader(Samples(), batch_size=None), "the loader makes no batches: its data set does"),
        (
            lambda: DataLoader(Samples(), batch_sampler=Own(SequentialSampler(Samples()), 4, True)),
            "a batch sampler of the script's own, Own, decides what is in a batch",
        ),
        (lambda: loader(batch_size=8), "batches hold 8 samples already"),
        (lambda: loader(Samples(7), batch_size=2), "the data set has 7 samples only"),
        # Four features of four samples look like four samples; those of eight samples do too.
        (lambda: loader(collate_fn=features), "a batch of 4 samples came where 8 were asked for"),
    ],
)
def test_a_size_that_cannot_be_changed_is_refused(made: Any, reason: str, tmp_path: Path) -> None:
    came = walked(tmp_path, made())

    assert came.became() == ["not applicable"]
    assert came.reason() == reason


@pytest.mark.parametrize(("longest_s", "is_refused"), [(0.1, True), pytest.param(10.0, False, marks=pytest.mark.slow)])
def test_a_size_of_which_the_batches_take_too_long_is_refused_before_one_is_made(
    longest_s: float, is_refused: bool, tmp_path: Path
) -> None:
    """A sample takes 1 ms to make, a batch of 1000 a second."""
    plan = plan_of(["batch-size=1000", "batch-size=8"], [AS_IS, 2, 1], steps=2, longest_step_s=longest_s)
    made = loader(Samples(sample_s=0.001))
    came = walk(tmp_path / "r", plan, lambda script: script.train(made))

    refused = [note["reason"] for note in came.notes if note["state"] == "not applicable"]
    assert len(refused) == is_refused
    assert all(re.match(r"its first batch alone would take about \d.* to make, .* steps of 100 ms", reason) for reason in refused)
    assert (1000 in samples(came, 1)) != is_refused
    assert samples(came, 2) == {8}


@pytest.mark.slow
def test_a_size_of_which_steps_take_too_long_is_given_up_after_two_of_them(tmp_path: Path) -> None:
    """2 ms a sample: 64 of them take longer than the budget has room for, and 8 do not."""

    def train(script: Any) -> None:
        made, more = loader(), True
        while more:
            for batch in made:
                if not (more := script.step(batch, 0.002 * len(batch))):
                    break

    came = walk(tmp_path / "r", plan_of(["batch-size=64", "batch-size=8"], [AS_IS, 1, 2, 1, 2], steps=2, longest_step_s=0.1), train)

    assert came.faults == {}
    (refused,) = [note["reason"] for note in came.notes if note["state"] == "not applicable"]
    assert re.fullmatch(r"a step of 64 samples takes [\d.]+ m?s, and the budget has room for steps of 100 ms: give more --budget", refused)
    assert np.count_nonzero(came.steps.samples == 64) == 2
    assert samples(came, 2) == {8}


def test_levers_have_no_longer_to_be_made_ready_than_the_plan_says(tmp_path: Path) -> None:
    """Its own sixteen batches are looked at first; this plan has no time for them."""
    came = walk(tmp_path / "r", plan_of(["batch-size=8"], [AS_IS, 1] * 4, ready_s=0.0), lambda script: script.train(loader()))

    assert came.reason() == "what it needs was not seen in time"
    assert samples(came, AS_IS) == {4}


def test_batches_that_do_not_say_their_size_are_refused(tmp_path: Path) -> None:
    class Three(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 4096

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.zeros(3, 4)

    came = walked(tmp_path, loader(Three(), collate_fn=lambda some: torch.cat(some)))

    assert came.reason() == "its batches do not say how many samples they hold"


def test_compiled_code_is_made_for_its_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "has_compiled", lambda: True)

    came = walked(tmp_path, loader())

    assert came.reason() == "code was compiled for the shapes that it gets, and would be compiled again"


def test_a_size_written_into_the_script_is_refused(tmp_path: Path, script_of: Any) -> None:
    script_of("import torch\nhidden = torch.zeros(1, 4, 16)\n")

    came = walked(tmp_path, loader())

    assert came.reason().startswith(
        "train.py:2 makes a shape with 4 in it, as many as the batch size: take the number from the batch there"
    )


def test_a_script_that_has_trained_on_a_smaller_last_batch_can_take_others(tmp_path: Path, script_of: Any) -> None:
    script_of("import torch\nhidden = torch.zeros(1, 4, 16)\n")

    came = walked(tmp_path, loader(Samples(42)))

    assert came.became() == ["ready", "effect"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x.view(64, -1)", 1),
        ("BATCH = 64\nx = torch.zeros(1, BATCH, 8)", 2),
        ("def main():\n    size = 64\n    return x.reshape(size * 2, -1)", 3),
        ("h = torch.randn(2, args.batch_size, 8)", 1),
        ("h = model.init_hidden(config.train.per_device_batch_size)", 1),
        ("x.view(x.size(0), -1)", None),
        ("hidden = 64\nloader = DataLoader(data, batch_size=64)", None),
        ("x.view(-1, 32)", None),
        ("x.view(True, -1)", None),
        ("this is no Python", None),
        ("class Data:\n    def __getitem__(self, index):\n        return torch.ones(64)", None),
        ("class Data:\n    def __iter__(self):\n        yield from (torch.rand(64) for _ in range(9))", None),
        ("class Data:\n    def __getitem__(self, index):\n        return torch.ones(64)\n\nh = torch.zeros(64)", 5),
        ("class Net:\n    def forward(self, x):\n        return x.view(64, -1)", 3),
        ("class Data:\n    def __init__(self):\n        self.x = torch.randn(64, 3)\n    def __getitem__(self, index): ...", None),
        ("class Data(torch.utils.data.TensorDataset):\n    def __init__(self):\n        super().__init__(torch.randn(64, 3))", None),
        ("class Net:\n    def __getitem__(self, index): ...\n    def forward(self, x):\n        return x.view(64, -1)", 4),
        ("x = torch.randn(100, 3, 64, 64)", None),
        ("x = torch.zeros((100, 3, 64))", None),
        ("x = torch.zeros((1, 64, 8))", 1),
        ("x.view(-1, 64 * 5 * 5)", None),
        ("x.view(-1, args.batch_size * 5)", 1),
        ("y = torch.randint(0, 64, (100,))", None),
        ("y = torch.randint(0, 10, (64,))", 1),
        ("y = torch.full((64, 1), 0.5)", 1),
    ],
)
def test_shapes_with_the_batch_size_in_them_are_found(text: str, line: int | None, script_of: Any) -> None:
    script_of(text)

    assert find_baked(64) == (None if line is None else f"train.py:{line}")


def test_a_session_without_a_script_has_nothing_written_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))

    assert find_baked(64) is None
