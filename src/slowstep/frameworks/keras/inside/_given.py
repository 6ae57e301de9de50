"""What kind of input `fit` was given, by the adapter that Keras reads it with."""

from __future__ import annotations

from types import FrameType
from typing import Final

from slowstep.record.attributes import held_by
from slowstep.record.experiment.lever import NotApplicable

DATASET: Final = "tf.data"
MADE_BY_KERAS: Final = "fit was given no tf.data.Dataset, and the pipeline is made by Keras"
# As frameworks/keras/outside/inputs.py has their words.
_KINDS: Final = {
    "ArrayDataAdapter": "arrays",
    "PyDatasetAdapter": "PyDataset",
    "GeneratorDataAdapter": "generator",
    "TFDatasetAdapter": DATASET,
    "TorchDataLoaderAdapter": "DataLoader",
    "GrainDatasetAdapter": "grain",
}


class GivenInput:
    """`kind` is that of all calls of `fit`; None where it is not known, or one was given another kind than the one before."""

    def __init__(self) -> None:
        self.kind: str | None = None
        self._has_begun = False

    def begins(self, loop: FrameType) -> bool:
        """The first batch of a `fit` begins, whose frame `loop` is. Whether `kind` is another one than before."""
        before, is_first, found = self.kind, not self._has_begun, _kind_in(loop)
        self._has_begun = True
        if is_first or self.kind != found:
            self.kind = found if is_first else None
        return self.kind != before

    def check_dataset(self) -> None:
        """Raises NotApplicable where that was no data set of tf.data: the pipeline that Keras makes of it cannot be written otherwise."""
        if self.kind != DATASET:
            raise NotApplicable(MADE_BY_KERAS)


def _kind_in(loop: FrameType) -> str | None:
    """None of a loop of the script's own."""
    epochs = loop.f_locals.get("epoch_iterator")
    return None if epochs is None else _KINDS.get(type(held_by(epochs, "data_adapter")).__name__)
