"""What kind of input `fit` was given, by the adapter that Keras reads it with, and how many steps of it an epoch is to have."""

from __future__ import annotations

import math
from types import FrameType
from typing import Any, Final

from slowstep.frameworks.keras.inside._epochs import ends_before_data
from slowstep.record.attributes import held_by
from slowstep.record.experiment.lever import NotApplicable

DATASET: Final = "tf.data"
MADE_BY_KERAS: Final = "fit was given no tf.data.Dataset, and the pipeline is made by Keras"
# As frameworks/keras/outside/words.py has their words.
_KINDS: Final = {
    "ArrayDataAdapter": "arrays",
    "PyDatasetAdapter": "PyDataset",
    "GeneratorDataAdapter": "generator",
    "TFDatasetAdapter": DATASET,
    "TorchDataLoaderAdapter": "DataLoader",
    "GrainDatasetAdapter": "grain",
}


class GivenInput:
    """`kind` is that of all calls of `fit`; None where it is not known, or one was given another kind than the one before.

    `steps_per_epoch` is after how many batches an epoch ends though its data go on, of calls that end differently what divides all of
    them; None where epochs end with their data.
    """

    def __init__(self) -> None:
        self.kind: str | None = None
        self.steps_per_epoch: int | None = None
        self._has_begun = False

    def begins(self, loop: FrameType) -> bool:
        """The first batch of a `fit` begins, whose frame `loop` is. Whether what is known is other than before."""
        epochs = loop.f_locals.get("epoch_iterator")
        before, is_first, found = (self.kind, self.steps_per_epoch), not self._has_begun, _kind_of(epochs)
        self._has_begun = True
        if is_first or self.kind != found:
            self.kind = found if is_first else None
        self.steps_per_epoch = math.gcd(self.steps_per_epoch or 0, _asked_of(epochs)) or None
        return (self.kind, self.steps_per_epoch) != before

    def check_dataset(self) -> None:
        """Raises NotApplicable where that was no data set of tf.data: the pipeline that Keras makes of it cannot be written otherwise."""
        if self.kind != DATASET:
            raise NotApplicable(MADE_BY_KERAS)


def _kind_of(epochs: Any) -> str | None:
    """None of a loop of the script's own."""
    return None if epochs is None else _KINDS.get(type(held_by(epochs, "data_adapter")).__name__)


def _asked_of(epochs: Any) -> int:
    """0 where an epoch ends with its data."""
    asked = held_by(epochs, "steps_per_epoch") if epochs is not None and ends_before_data(epochs) else None
    return asked if isinstance(asked, int) else 0
