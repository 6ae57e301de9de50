"""What each `fit` was given, on classes that stand for Keras' own: no framework is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from recorded import make_folder
from slowstep.frameworks.keras.inside import fit
from slowstep.frameworks.keras.inside._framework import FRAMEWORK, Keras
from slowstep.frameworks.keras.outside.words import INPUTS
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
    def __init__(self, adapter: str, asked: int | None = None, batches: int | None = None) -> None:
        self.data_adapter = type(adapter, (), {})()
        self.steps_per_epoch, self._num_batches = asked, batches


class CallbackList:
    """One of a `fit`."""


@pytest.fixture
def framework() -> Iterator[Keras]:
    FRAMEWORK.forget()
    yield FRAMEWORK
    FRAMEWORK.forget()


def fit_once(framework: Keras, adapter: str, validation: str | None = None, **of_epoch: int) -> bool:
    """As `fit` does: whether what is known has changed with its first batch."""
    epoch_iterator = EpochIterator(adapter, **of_epoch)
    callbacks = CallbackList()
    has_changed = framework.runs(callbacks, sys._getframe())
    if validation is not None:
        epoch_iterator = EpochIterator(validation)
    assert not framework.runs(callbacks, sys._getframe())
    assert epoch_iterator is not None
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


def test_how_many_steps_were_asked_for_of_an_epoch_is_known_where_its_data_go_on(framework):
    said = [fit_once(framework, "TFDatasetAdapter", **of) for of in ({"asked": 20}, {"asked": 50, "batches": 50}, {"asked": 30})]

    assert said == [True, False, True]
    # What divides both.
    assert framework.facts()["steps_per_epoch"] == 10


def test_an_adapter_of_the_scripts_own_is_of_no_known_kind(framework):
    assert not fit_once(framework, "Own")
    assert framework.given.kind is None


def test_of_a_loop_of_the_scripts_own_it_is_not_known_though_a_fit_ran_before(framework):
    fit_once(framework, "ArrayDataAdapter")

    assert framework.runs(CallbackList(), sys._getframe())
    assert framework.given.kind is None


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
    epoch_iterator = EpochIterator("ArrayDataAdapter")
    callbacks = CallbackList()

    for _ in range(2):
        fit._runs(recorder, fit.Updates(recorder, framework), callbacks, sys._getframe())

    recorder.stop("test")
    assert said == ["arrays"] * is_known
    assert epoch_iterator is not None
