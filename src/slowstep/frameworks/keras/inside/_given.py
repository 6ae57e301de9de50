"""What kind of input `fit` was given, by the adapter that Keras reads it with."""

from __future__ import annotations

import threading
from typing import Any, Final

# As frameworks/keras/outside/inputs.py has their words.
_KINDS: Final = {
    "ArrayDataAdapter": "arrays",
    "PyDatasetAdapter": "PyDataset",
    "GeneratorDataAdapter": "generator",
    "TFDatasetAdapter": "tf.data",
    "TorchDataLoaderAdapter": "DataLoader",
    "GrainDatasetAdapter": "grain",
}


class _Latest(threading.local):
    """The kind of input for which this thread has made epochs last."""

    kind: str | None = None


class GivenInput:
    """`kind` is that of all calls of `fit`; None where it is not known, or one was given another kind than the one before."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self._latest = _Latest()
        self._has_begun = False

    def made(self, adapter: Any) -> None:
        """Epochs were made that are read with an adapter: those of a `fit` before its first batch, those of its validation after it."""
        self._latest.kind = _KINDS.get(type(adapter).__name__)

    def begins(self) -> bool:
        """The first batch of a `fit` begins on this thread. Whether `kind` is another one than before."""
        before, is_first = self.kind, not self._has_begun
        self._has_begun = True
        if is_first or self.kind != self._latest.kind:
            self.kind = self._latest.kind if is_first else None
        return self.kind != before
