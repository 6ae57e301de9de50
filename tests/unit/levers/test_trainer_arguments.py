"""What a lever that leaves out all but one call in so many is among the arguments of a trainer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.lightning.inside import _framework as lightning
from slowstep.frameworks.lightning.inside.levers.logging_off import LightningLoggingOff
from slowstep.frameworks.lightning.inside.levers.validation_off import LightningValidationOff
from slowstep.frameworks.transformers.inside import _framework as transformers
from slowstep.frameworks.transformers.inside.levers.checkpoint_off import TransformersCheckpointOff
from slowstep.frameworks.transformers.inside.levers.logging_off import TransformersLoggingOff
from slowstep.frameworks.transformers.inside.levers.validation_off import TransformersValidationOff

TRAINING: Any = SimpleNamespace(recorder=SimpleNamespace(forgetters=[]))


def told(kind: Any, every: int, monkeypatch: pytest.MonkeyPatch, *, left_out: str | None = None, **trainer: Any) -> Any:
    """The arguments that a lever's facts hold, in a training of such a trainer."""
    made = SimpleNamespace(**trainer, args=SimpleNamespace(**trainer))
    for framework in (lightning.FRAMEWORK, transformers.FRAMEWORK):
        monkeypatch.setattr(type(framework), "trainer", lambda _: made)
    change = kind(TRAINING, every)
    if left_out is not None:
        change.count(left_out)
    facts = change.facts()
    assert ("arguments" in facts) == (facts.get("arguments_of") == "trainer")
    return facts.get("arguments")


@pytest.mark.parametrize(
    ("epochs", "interval", "arguments"),
    [
        (1, 1.0, {"check_val_every_n_epoch": 4}),
        (3, 1.0, {"check_val_every_n_epoch": 12}),
        (1, 0.25, {"val_check_interval": 1.0}),
        (1, 0.5, None),
        (1, 10, {"val_check_interval": 40}),
        (None, 10, {"val_check_interval": 40}),
        (1, 30, {"val_check_interval": 120, "check_val_every_n_epoch": None}),
        (2, 10, None),
    ],
)
def test_lightning_validates_more_seldom_by_epochs_or_by_batches(
    monkeypatch: pytest.MonkeyPatch, epochs: int | None, interval: float, arguments: Any
) -> None:
    trainer = {"check_val_every_n_epoch": epochs, "val_check_interval": interval, "num_training_batches": 100}

    assert told(LightningValidationOff, 4, monkeypatch, **trainer) == arguments
    assert told(LightningValidationOff, 1, monkeypatch, **trainer) is None


def by(strategy: str, **steps: Any) -> dict[str, Any]:
    value = SimpleNamespace(value=strategy)
    return {"eval_strategy": value, "save_strategy": value, "logging_strategy": value, **steps}


def test_the_trainer_of_hugging_face_is_asked_for_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = by("steps", eval_steps=50, save_steps=100.0, logging_steps=5)

    assert told(TransformersValidationOff, 2, monkeypatch, **usual) == {"eval_steps": 100}
    assert told(TransformersCheckpointOff, 2, monkeypatch, **usual) == {"save_steps": 200}
    assert told(TransformersLoggingOff, 2, monkeypatch, **usual) == {"logging_steps": 10}
    assert told(TransformersValidationOff, 2, monkeypatch, **by("epoch", eval_steps=50)) is None
    assert told(TransformersValidationOff, 2, monkeypatch, **by("steps", eval_steps=0.1)) is None
    assert told(TransformersValidationOff, 2, monkeypatch, **usual, load_best_model_at_end=True) is None
    assert told(TransformersLoggingOff, 2, monkeypatch, **usual, load_best_model_at_end=True) == {"logging_steps": 10}


def test_where_more_was_left_out_than_the_trainer_decides_about_there_is_no_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = by("steps", save_steps=100, logging_steps=5)

    assert told(TransformersCheckpointOff, 2, monkeypatch, left_out="torch.serialization.save", **usual) is None
    assert told(TransformersLoggingOff, 2, monkeypatch, left_out="print", **usual) is None
    assert told(LightningLoggingOff, 2, monkeypatch, left_out="CSVLogger.log_metrics", log_every_n_steps=50) == {"log_every_n_steps": 100}
    assert told(LightningLoggingOff, 2, monkeypatch, left_out="print", log_every_n_steps=50) is None
