"""`checkpoint-off` in real trainings: nothing is written, and the script goes on as if it were."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import save as save_by_name

from made_trainings import Script, Walked, loader, plan_of, walk
from slowstep.levers._calls.intercept import _calls
from slowstep.record.writing.format import ENV_UNPROTECTED

STATE = {"weights": torch.ones(1000)}


@pytest.fixture(autouse=True)
def _no_function_is_intercepted() -> Iterator[None]:
    functions = torch.save, torch.load, torch.serialization.save, save_file, load_file
    yield
    assert not _calls, "a function is intercepted still"
    assert functions == (torch.save, torch.load, torch.serialization.save, save_file, load_file)


def walked_with(folder: Path, write: Callable[[int], Any], lever: str = "checkpoint-off", blocks: tuple[int, ...] = (0, 1, 0, 1)) -> Walked:
    """A training that writes something after each step."""

    def train(script: Script) -> None:
        for step, batch in enumerate(batches := loader()):
            more = script.step(batch)
            write(step)
            if not more:
                return
        assert batches

    return walk(folder / "recording", plan_of([lever], blocks), train)


def test_no_checkpoint_is_written_while_it_is_on(tmp_path: Path) -> None:
    sizes: dict[int, int] = {}

    def write(step: int) -> None:
        path = tmp_path / f"step-{step}.pt"
        torch.save(STATE, path)
        sizes[step] = path.stat().st_size

    walked = walked_with(tmp_path, write)

    effect, facts = walked.effect()
    assert effect == 12
    assert facts == {"left_out": {"torch.serialization.save": 12}, "empty_files": 12, "loads": 0}
    assert list(sizes.values()).count(0) == 12
    assert torch.load(tmp_path / "step-0.pt")["weights"].sum() == 1000
    assert walked.health == {}


@pytest.mark.parametrize("save", [torch.save, save_by_name, lambda state, path: torch.save(obj=state, f=str(path)), save_file])
def test_every_way_to_call_it_is_left_out(tmp_path: Path, save: Any) -> None:
    walked = walked_with(tmp_path, lambda step: save(STATE, tmp_path / f"{step}.pt"))

    assert walked.effect()[0] == 12
    assert sum(path.stat().st_size == 0 for path in tmp_path.glob("*.pt")) == 12


def test_what_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "latest.pt"

    walked = walked_with(tmp_path, lambda step: torch.save(STATE, path))

    effect, facts = walked.effect()
    assert (effect, facts["empty_files"]) == (12, 0)
    assert torch.load(path)["weights"].sum() == 1000


def test_a_file_that_is_renamed_and_deleted_afterwards_is_there_to_be(tmp_path: Path) -> None:
    def write(step: int) -> None:
        temporary, final = tmp_path / "unfinished.pt", tmp_path / f"step-{step}.pt"
        torch.save(STATE, temporary)
        os.replace(temporary, final)
        # Rotation: only the last two are kept.
        if step >= 2:
            os.remove(tmp_path / f"step-{step - 2}.pt")

    walked = walked_with(tmp_path, write)

    assert walked.states()[-1] == "effect"
    assert len(list(tmp_path.glob("*.pt"))) == 2
    assert walked.done


def test_file_objects_get_nothing(tmp_path: Path) -> None:
    written: list[int] = []

    def write(step: int) -> None:
        buffer = io.BytesIO()
        torch.save(STATE, buffer)
        written.append(buffer.tell())

    walked = walked_with(tmp_path, write)

    assert written.count(0) == walked.effect()[0] == 12


@pytest.mark.parametrize("rename", [False, True])
@pytest.mark.parametrize(("save", "load"), [(torch.save, torch.load), (save_file, load_file)])
def test_a_script_that_loads_what_was_not_written_gets_it_all_the_same(tmp_path: Path, save: Any, load: Any, rename: bool) -> None:
    def write(step: int) -> None:
        path = tmp_path / f"{step}.pt"
        save({"step": torch.tensor([float(step)])}, path)
        if rename:
            path = path.rename(tmp_path / f"final-{step}.pt")
        assert load(path)["step"].item() == step

    walked = walked_with(tmp_path, write)

    assert walked.effect()[1]["loads"] == walked.effect()[0] == 12


def test_where_nothing_can_be_written_the_script_meets_what_it_would_have_met(tmp_path: Path) -> None:
    raised: list[str] = []

    def write(step: int) -> None:
        try:
            torch.save(STATE, tmp_path / "missing" / "model.pt")
        except RuntimeError as error:
            raised.append(str(error))

    walked = walked_with(tmp_path, write)

    assert walked.effect()[0] == 0
    assert len(raised) == 20 + len(walked.steps.arm) + 1
    assert len(set(raised)) == 1


def test_one_checkpoint_in_k_is_written_whole(tmp_path: Path) -> None:
    def write(step: int) -> None:
        # A checkpoint of two files, which belong together.
        torch.save(STATE, tmp_path / f"model-{step}.pt")
        torch.save(STATE, tmp_path / f"optimizer-{step}.pt")

    walked = walked_with(tmp_path, write, "checkpoint-off:every=3")

    models = {path.stem[6:] for path in tmp_path.glob("model-*.pt") if path.stat().st_size == 0}
    optimizers = {path.stem[10:] for path in tmp_path.glob("optimizer-*.pt") if path.stat().st_size == 0}
    # Ten counted steps, of which three write, and two in which it settled, which do not.
    assert models == optimizers
    assert len(models) == 9
    assert walked.effect()[0] == 18


def test_a_training_without_checkpoints_shows_no_effect(tmp_path: Path) -> None:
    walked = walked_with(tmp_path, lambda step: None)

    assert walked.effect() == (0, {"left_out": {}, "empty_files": 0, "loads": 0})


def test_it_is_refused_where_an_empty_file_would_stay_among_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_UNPROTECTED, "1")
    path = tmp_path / "latest.pt"

    def write(step: int) -> None:
        # As careful scripts do it: what was there is never half written.
        torch.save(STATE, tmp_path / "draft.pt")
        os.replace(tmp_path / "draft.pt", path)
        assert path.stat().st_size > 1000

    walked = walked_with(tmp_path, write)

    assert walked.became() == ["not applicable"]
    assert "the empty files that it leaves could take the place of your own checkpoints" in walked.reason()
    assert torch.load(path)["weights"].sum() == 1000
