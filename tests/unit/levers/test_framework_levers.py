"""Levers in Lightning's and Hugging Face's own trainers, as they are installed."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from made_trainings import Walked, plan_of, recording
from slowstep.levers._calls.intercept import _calls
from slowstep.record.writing import format as contract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

BLOCKS = (0, 1, 0, 1)
STEPS = 8
LIMIT = 600
LEAD_IN = 20


def needs(*modules: str) -> Any:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


class Numbers(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, length: int = 24) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.full((8,), float(index)), "labels": torch.tensor(index % 3)}


class Steps:
    """Posts the plan after some steps, and says when the training is to end."""

    def __init__(self, recorder: Any) -> None:
        self._page = recorder.page.bytes
        self.done = 0

    def step(self) -> bool:
        self.done += 1
        if self.done == LEAD_IN:
            self._page[contract.CONTROL_PLAN] = contract.PLAN_POSTED
        return self._page[contract.CONTROL_PLAN] != contract.PLAN_DONE and self.done < LIMIT


@pytest.fixture
def seen() -> Counter[str]:
    """What really happened, by name."""
    return Counter()


@pytest.fixture(autouse=True)
def _quiet_and_nothing_left() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    assert not _calls, "a function is intercepted still"


def walk_with(folder: Path, lever: str, train: Callable[[Steps], Any]) -> Walked:
    walked = Walked(folder / "recording")
    with recording(walked.folder) as recorder:
        (walked.folder / contract.PLAN_FILE).write_text(plan_of([lever], BLOCKS, steps=STEPS).dumps())
        train(Steps(recorder))
        walked.done = recorder.page.bytes[contract.CONTROL_PLAN] == contract.PLAN_DONE
    assert walked.done
    assert walked.health == {}
    return walked


def lightning_training(package: str, seen: Counter[str], folder: Path, *, instances: list[Any] | None = None, **arguments: Any) -> Any:
    """A training of Lightning's with callbacks, a logger, validation every fourth step and checkpoints."""
    pl = importlib.import_module(package)
    loggers = importlib.import_module(f"{package}.loggers.logger")
    logging.getLogger(package).setLevel(logging.ERROR)

    class Net(pl.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self, steps: Steps) -> None:
            super().__init__()
            self.layer, self._steps = torch.nn.Linear(8, 3), steps

        def training_step(self, batch: Any, index: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.layer(batch["x"]), batch["labels"])
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            seen["validation_step"] += 1

        def on_train_batch_end(self, *_: Any) -> None:
            if not self._steps.step():
                self.trainer.should_stop = True

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class Plot(pl.Callback):  # type: ignore[name-defined,misc]
        def on_train_epoch_start(self, *_: Any) -> None:
            self.values: list[int] = []

        def on_train_batch_end(self, *_: Any) -> None:
            seen["Plot"] += 1
            self.values.append(1)

        def on_train_epoch_end(self, *_: Any) -> None:
            assert self.values

    class Count(pl.Callback):  # type: ignore[name-defined,misc]
        def on_train_batch_end(self, *_: Any) -> None:
            seen["Count"] += 1

        def on_validation_end(self, *_: Any) -> None:
            seen["validations"] += 1

    class Log(loggers.Logger):  # type: ignore[name-defined,misc]
        name = version = "log"

        def log_metrics(self, metrics: Any, step: Any = None) -> None:
            seen["log_metrics"] += 1

        def log_hyperparams(self, *_: Any, **__: Any) -> None:
            pass

    def train(steps: Steps) -> None:
        callbacks = [Plot(), Count(), pl.callbacks.ModelCheckpoint(folder / "checkpoints", every_n_train_steps=3, save_top_k=-1)]
        if instances is not None:
            instances.extend(callbacks)
        trainer = pl.Trainer(
            max_epochs=200,
            accelerator="cpu",
            logger=Log(),
            callbacks=callbacks,
            log_every_n_steps=1,
            val_check_interval=4,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            default_root_dir=folder,
            **arguments,
        )
        trainer.fit(Net(steps), DataLoader(Numbers(), batch_size=2), DataLoader(Numbers(8), batch_size=2))

    return train


PACKAGES = [
    pytest.param("lightning.pytorch", marks=needs("lightning")),
    pytest.param("pytorch_lightning", marks=needs("pytorch_lightning")),
]
# Two blocks of STEPS counted steps and one that is dropped.
ON = 2 * (STEPS + 1)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_callbacks_of_lightning_are_left_out(tmp_path: Path, seen: Counter[str], package: str) -> None:
    instances: list[Any] = []

    walked = walk_with(tmp_path, "callbacks-off", lightning_training(package, seen, tmp_path, instances=instances))

    _, facts = walked.effect()
    assert facts["left_out"]["Plot.on_train_batch_end"] == facts["left_out"]["Count.on_train_batch_end"] == ON
    assert seen["Plot"] == seen["Count"]
    assert facts["kept"] == ["ModelCheckpoint"]
    assert not any("on_train_batch_end" in vars(callback) for callback in instances)
    assert len(list((tmp_path / "checkpoints").iterdir())) > LEAD_IN / 3


@pytest.mark.parametrize("package", PACKAGES[:1])
def test_callbacks_of_lightning_are_left_out_one_by_one(tmp_path: Path, seen: Counter[str], package: str) -> None:
    walked = walk_with(tmp_path, "callbacks-off=Plot", lightning_training(package, seen, tmp_path))

    effect, facts = walked.effect()
    assert facts["left_out"]["Plot.on_train_batch_end"] == ON
    assert facts["kept"] == ["Count", "ModelCheckpoint"]
    assert seen["Count"] - seen["Plot"] == ON
    assert effect >= ON


@pytest.mark.parametrize("package", PACKAGES[:1])
def test_a_name_that_no_callback_has_is_refused_with_those_there_are(tmp_path: Path, seen: Counter[str], package: str) -> None:
    walked = walk_with(tmp_path, "callbacks-off=Nothing", lightning_training(package, seen, tmp_path))

    assert "is called Nothing (the trainer has: Count, ModelCheckpoint, Plot)" in walked.reason()


@pytest.mark.parametrize("package", PACKAGES)
def test_loggers_of_lightning_are_left_out(tmp_path: Path, seen: Counter[str], package: str) -> None:
    walked = walk_with(tmp_path, "logging-off", lightning_training(package, seen, tmp_path))

    _, facts = walked.effect()
    assert facts["left_out"]["Trainer.loggers"] == ON
    assert seen["log_metrics"] == seen["Plot"] - ON


@pytest.mark.parametrize("package", PACKAGES)
def test_lightning_does_not_validate(tmp_path: Path, seen: Counter[str], package: str) -> None:
    walked = walk_with(tmp_path, "validation-off", lightning_training(package, seen, tmp_path))

    effect, facts = walked.effect()
    assert facts == {"left_out": {"Trainer.validate": effect}}
    assert effect in (4, 5)
    # Every fourth step, and at the end; four batches each.
    assert seen["validations"] + effect == seen["Plot"] // 4 + 1
    assert seen["validation_step"] == 4 * seen["validations"]


@pytest.mark.parametrize("package", PACKAGES)
def test_lightning_writes_no_checkpoints(tmp_path: Path, seen: Counter[str], package: str) -> None:
    walked = walk_with(tmp_path, "checkpoint-off", lightning_training(package, seen, tmp_path))

    effect, facts = walked.effect()
    sizes = [path.stat().st_size for path in (tmp_path / "checkpoints").iterdir()]
    assert sizes.count(0) == effect == facts["empty_files"]
    assert effect in (5, 6, 7)
    assert facts["left_out"] == {f"{package}.trainer.trainer.Trainer.save_checkpoint": effect}


def huggingface_training(seen: Counter[str], folder: Path) -> Any:
    """A training of Hugging Face's with a callback, logs, evaluation every fourth step and checkpoints."""
    transformers = importlib.import_module("transformers")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 3)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels), "logits": labels}

    class Watch(transformers.TrainerCallback):  # type: ignore[name-defined,misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            seen["Watch"] += 1
            time.sleep(0.001)

        def on_log(self, *_: Any, **__: Any) -> None:
            seen["on_log"] += 1

        def on_evaluate(self, *_: Any, **__: Any) -> None:
            seen["on_evaluate"] += 1

    class Trainer(transformers.Trainer):  # type: ignore[name-defined,misc]
        def training_step(self, *arguments: Any, **more: Any) -> Any:
            seen["steps"] += 1
            if not steps[0].step():
                self.control.should_training_stop = True
            return super().training_step(*arguments, **more)

    steps: list[Steps] = []

    def train(own: Steps) -> None:
        steps.append(own)
        arguments = transformers.TrainingArguments(
            output_dir=str(folder / "out"),
            max_steps=LIMIT,
            per_device_train_batch_size=2,
            per_device_eval_batch_size=2,
            use_cpu=True,
            report_to="none",
            save_strategy="steps",
            save_steps=4,
            disable_tqdm=True,
            eval_strategy="steps",
            eval_steps=4,
            logging_steps=1,
            optim="sgd",
        )
        Trainer(model=Net(), args=arguments, train_dataset=Numbers(), eval_dataset=Numbers(8), callbacks=[Watch()]).train()

    return train


@needs("transformers", "accelerate")
@pytest.mark.parametrize("lever", ["callbacks-off", "callbacks-off=Watch"])
def test_callbacks_of_huggingface_are_left_out(tmp_path: Path, seen: Counter[str], lever: str) -> None:
    walked = walk_with(tmp_path, lever, huggingface_training(seen, tmp_path))

    _, facts = walked.effect()
    assert facts["left_out"]["Watch.on_step_end"] == ON
    assert seen["steps"] - seen["Watch"] == ON
    assert "DefaultFlowCallback" in facts["kept"]


@needs("transformers", "accelerate")
def test_huggingface_logs_nothing(tmp_path: Path, seen: Counter[str]) -> None:
    walked = walk_with(tmp_path, "logging-off", huggingface_training(seen, tmp_path))

    _, facts = walked.effect()
    assert facts["left_out"]["Trainer.log"] >= ON
    # One for each step, one for each evaluation, and one at the end.
    assert seen["on_log"] == seen["steps"] + seen["on_evaluate"] + 1 - facts["left_out"]["Trainer.log"]


@needs("transformers", "accelerate")
def test_huggingface_does_not_evaluate(tmp_path: Path, seen: Counter[str]) -> None:
    walked = walk_with(tmp_path, "validation-off", huggingface_training(seen, tmp_path))

    effect, facts = walked.effect()
    assert facts == {"left_out": {"Trainer.evaluate": effect}}
    assert effect in (4, 5)
    assert seen["on_evaluate"] + effect == seen["steps"] // 4


@needs("transformers", "accelerate")
def test_huggingface_saves_nothing(tmp_path: Path, seen: Counter[str]) -> None:
    walked = walk_with(tmp_path, "checkpoint-off", huggingface_training(seen, tmp_path))

    effect, facts = walked.effect()
    saved = list((tmp_path / "out").glob("checkpoint-*"))
    assert facts["left_out"] == {"Trainer._save_checkpoint": effect}
    assert effect in (4, 5)
    assert len(saved) + effect == seen["steps"] // 4
    assert all((folder / "trainer_state.json").stat().st_size for folder in saved)


def test_a_loop_of_the_scripts_own_has_no_callbacks(tmp_path: Path) -> None:
    def train(steps: Steps) -> None:
        layer = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        batches = DataLoader(Numbers(10_000), batch_size=2)
        for batch in batches:
            layer(batch["x"]).sum().backward()
            optimizer.step()
            if not steps.step():
                return

    walked = walk_with(tmp_path, "callbacks-off", train)

    assert walked.states() == ["not applicable"]
    assert walked.reason().endswith("in a loop of the script's own use stub=MODULE:FUNCTION")
