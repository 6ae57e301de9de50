"""What each `fit` was given, on classes that stand for Keras' own: no framework is imported."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recorded import make_folder
from slowstep.frameworks.keras.inside import epochs, fit
from slowstep.frameworks.keras.inside._framework import Keras
from slowstep.frameworks.keras.outside.inputs import INPUTS
from slowstep.record.recorder import Recorder

KINDS = {
    "ArrayDataAdapter": "arrays",
    "PyDatasetAdapter": "PyDataset",
    "GeneratorDataAdapter": "generator",
    "TFDatasetAdapter": "tf.data",
    "TorchDataLoaderAdapter": "DataLoader",
    "GrainDatasetAdapter": "grain",
}


class EpochIterator:
    def __init__(self, x: str, batch_size: int | None = None) -> None:
        if batch_size == 0:
            raise ValueError("no batches")
        self.data_adapter = type(x, (), {})()


class TFEpochIterator(EpochIterator):
    def __init__(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class CallbackList:
    """One of a `fit`."""


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keras]:
    module = ModuleType("epochs")
    module.EpochIterator = EpochIterator  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keras.src.trainers.epoch_iterator", module)
    before = dict(vars(EpochIterator))
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    undo = epochs.install(recorder)
    yield epochs.FRAMEWORK
    undo()
    epochs.FRAMEWORK.forget()
    recorder.stop("test")
    assert dict(vars(EpochIterator)) == before


def fit_once(framework: Keras, adapter: str, validation: str | None = None) -> bool:
    """As `fit` does: whether what is known has changed with its first batch."""
    TFEpochIterator(None, adapter, batch_size=4)
    callbacks = CallbackList()
    has_changed = framework.runs(callbacks)
    if validation is not None:
        TFEpochIterator(None, x=validation)
    assert not framework.runs(callbacks)
    return has_changed


@pytest.mark.parametrize(("adapter", "kind"), KINDS.items(), ids=KINDS.values())
def test_it_is_known_by_the_adapter_and_has_words(framework, adapter, kind):
    assert fit_once(framework, adapter)
    assert framework.given.kind == kind
    assert kind in INPUTS


def test_what_a_validation_reads_is_not_what_is_trained_on(framework):
    fit_once(framework, "TFDatasetAdapter", validation="ArrayDataAdapter")

    assert not fit_once(framework, "TFDatasetAdapter")
    assert framework.given.kind == "tf.data"


def test_of_several_kinds_none_is_known(framework):
    said = [fit_once(framework, adapter) for adapter in ("ArrayDataAdapter", "TFDatasetAdapter", "TFDatasetAdapter")]

    assert said == [True, True, False]
    assert framework.given.kind is None


def test_an_adapter_of_the_scripts_own_is_of_no_known_kind(framework):
    assert not fit_once(framework, "Own")
    assert framework.given.kind is None


def test_what_another_thread_reads_is_its_own(framework):
    TFEpochIterator(None, "ArrayDataAdapter")
    other = threading.Thread(target=lambda: TFEpochIterator(None, "TFDatasetAdapter"))
    other.start()
    other.join()

    framework.runs(CallbackList())

    assert framework.given.kind == "arrays"


def test_what_epochs_refuse_is_passed_on(framework):
    with pytest.raises(ValueError, match="no batches"):
        TFEpochIterator(None, "ArrayDataAdapter", batch_size=0)


def test_of_keras_2_it_is_not_known_what_computes(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", ModuleType("keras"))

    assert Keras().facts()["computes_with"] is None
    assert Keras().trainer() is None


@pytest.mark.parametrize("is_known", [False, True])
def test_it_is_said_anew_where_something_was_said_before(framework, monkeypatch, tmp_path, is_known):
    said = []
    monkeypatch.setattr(fit.Updates, "is_any_known", lambda _: is_known)
    monkeypatch.setattr(fit.Updates, "note_facts", lambda _: said.append(framework.given.kind))
    recorder = Recorder(make_folder(tmp_path / "other"), level=0)
    TFEpochIterator(None, "ArrayDataAdapter")
    callbacks = CallbackList()

    for _ in range(2):
        fit._runs(recorder, fit.Updates(recorder, framework), callbacks)

    recorder.stop("test")
    assert said == ["arrays"] * is_known
