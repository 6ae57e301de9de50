"""Waits for batches where Keras trains on JAX: it asks for them in Python, in the call that trains."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from slowstep.frameworks.keras.inside._framework import FRAMEWORK, backend_name
from slowstep.frameworks.keras.inside._input import Input
from slowstep.record.attributes import held_by
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.steps.spans import RecordedWaits, new_number

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "keras.src.backend.jax.trainer"
_BACKEND: Final = "jax"


class JaxBatches(RecordedWaits[Any]):
    """Batches of which the call that trains is told when it has the first."""

    def __init__(self, recorder: Recorder, batches: Any, *, dataset: str, loader: int) -> None:
        super().__init__(recorder, iter(batches), dataset=dataset, loader=loader, framework=FRAMEWORK.name)
        self._input = recorder.shared(Input)

    def __next__(self) -> Any:
        batch = super().__next__()
        self._input.received()
        return batch


def install(recorder: Recorder) -> Undo:
    """Replace what gives the batches of an epoch, where Keras computes with JAX. Raises Unfit where this version has something else."""
    if backend_name() != _BACKEND:
        return lambda: None
    epochs = find(sys.modules.get(_MODULE), "JAXEpochIterator")
    original = find(epochs, "_get_iterator")
    loaders: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    @functools.wraps(original)
    def batches_of(self: Any) -> Any:
        found = original(self)
        try:
            if recorder.live[0]:
                data = given_data(find(self, "data_adapter"))
                return JaxBatches(recorder, found, dataset=type(data).__name__, loader=loaders.setdefault(self, new_number()))
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
        return found

    return replace(epochs, "_get_iterator", batches_of)


def given_data(adapter: Any) -> Any:
    """The user's own data set that an adapter of Keras reads, whose class has a name; the adapter itself of what has none."""
    held = held_by(adapter, "py_dataset")
    return adapter if held is None else held


HOOK = Hook(name="keras_jax_input", module="keras", install=install)
