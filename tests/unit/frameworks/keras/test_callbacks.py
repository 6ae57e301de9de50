"""Callbacks of Keras by their names, with a list of callbacks that stands for Keras' own: no framework is imported."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slowstep.frameworks.keras.inside import callbacks
from slowstep.record.patch import Unfit
from slowstep.record.recorder import Recorder
from slowstep.record.steps.named_spans import Label
from slowstep.record.writing.format import CONTROL_BYTES, CONTROL_FILE


class CallbackList:
    """What Keras 3.15 has: what another thread may do has an underscore."""

    def __init__(self, *called: Any) -> None:
        self.callbacks = list(called)
        self.told: list[int] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._on_train_batch_end(batch, logs)

    def _on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.told = [*self.told, batch]
        for callback in self.callbacks:
            callback.on_train_batch_end(batch, logs=logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        for callback in self.callbacks:
            callback.on_epoch_end(epoch, logs)


class Callback:
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(0.001)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        time.sleep(0.001)


class Base:
    """As Keras' own, from which all callbacks of a version inherit."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.on_batch_end(batch, logs=logs)

    def on_batch_end(self, batch: int, logs: Any = None) -> None: ...

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None: ...


class AfterEpochs(Base):
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        time.sleep(0.001)


class AfterBatches(Base):
    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(0.001)


class Handed(Base):
    """As `LambdaCallback`: its function is an attribute."""

    def __init__(self, name: str) -> None:
        setattr(self, name, lambda *_, **__: None)


class Passes(Base):
    """Whatever is asked of it is another callback's."""

    def __getattribute__(self, name: str) -> Any:
        return getattr(AfterBatches(), name)


class Draw(Callback): ...


class ProgbarLogger(Callback): ...


class ModelCheckpoint(Callback): ...


class BestModel(ModelCheckpoint): ...


class Fails(Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        raise KeyError("the user's own")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Label]]:
    """The spans that are written, in their order, while a list of callbacks is hooked."""
    (tmp_path / CONTROL_FILE).write_bytes(b"\1" + bytes(CONTROL_BYTES - 1))
    recorder = Recorder(str(tmp_path), level=0)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    module = ModuleType(callbacks.MODULE)
    module.CallbackList = CallbackList  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, callbacks.MODULE, module)
    found: list[Label] = []
    monkeypatch.setattr(callbacks.NamedSpans, "write", lambda self, label, *_, **__: found.append(label))
    before = dict(vars(CallbackList))
    undo = callbacks.install(recorder)
    assert dict(vars(CallbackList)) != before
    yield found
    undo()
    recorder.stop("exit")
    assert dict(vars(CallbackList)) == before


def test_each_callback_is_written_by_its_name_and_for_what_it_is(written):
    told = CallbackList(Draw(), ProgbarLogger(), BestModel())

    told.on_train_batch_end(7)
    told.on_epoch_end(0)

    assert [(label.name, label.stage) for label in written] == [
        ("callback: Draw.on_train_batch_end", "output"),
        ("progress bar: ProgbarLogger.on_train_batch_end", "output"),
        ("checkpoint: BestModel.on_train_batch_end", "store"),
        ("callback: Draw.on_epoch_end", "output"),
        ("progress bar: ProgbarLogger.on_epoch_end", "output"),
        ("checkpoint: BestModel.on_epoch_end", "store"),
    ]
    assert {label.file for label in written} == {__file__}


def test_what_the_list_keeps_for_itself_stays_its_own(written):
    told = CallbackList(Draw())

    told.on_train_batch_end(3)

    assert (told.told, vars(told).keys()) == ([3], {"callbacks", "told"})


@pytest.mark.parametrize(
    ("called", "told"),
    [
        ([Base(), AfterEpochs()], []),
        ([Base(), AfterBatches()], ["Base", "AfterBatches"]),
        ([Handed("on_train_batch_end")], ["Handed"]),
        ([Handed("on_batch_end")], ["Handed"]),
        ([Handed("on_epoch_end")], []),
        ([Passes()], ["Passes"]),
        ([Draw()], ["Draw"]),
    ],
)
def test_after_each_batch_callbacks_are_timed_where_any_of_them_has_something_to_do(written, monkeypatch, called, told):
    module = ModuleType("keras.src.callbacks.callback")
    module.Callback = Base  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    callback_list = CallbackList(*called)
    for batch in range(2):
        callback_list.on_train_batch_end(batch)

    assert [label.name.partition(":")[2].strip().partition(".")[0] or label.name for label in written] == 2 * told
    assert callback_list.told == [0, 1]

    written.clear()
    CallbackList(Base()).on_epoch_end(0)
    assert len(written) == 1


def test_an_error_of_a_callback_reaches_the_script_and_no_later_callback_is_called(written):
    last = Draw()

    with pytest.raises(KeyError, match="the user's own"):
        CallbackList(Draw(), Fails(), last).on_train_batch_end(0)

    assert [label.name.split(": ")[1] for label in written] == ["Draw.on_train_batch_end", "Fails.on_train_batch_end"]


def test_a_version_without_a_list_of_callbacks_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / CONTROL_FILE).write_bytes(b"\1" + bytes(CONTROL_BYTES - 1))
    monkeypatch.setitem(sys.modules, callbacks.MODULE, ModuleType(callbacks.MODULE))

    with pytest.raises(Unfit):
        callbacks.install(Recorder(str(tmp_path), level=0))
