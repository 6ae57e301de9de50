"""A train function for all but the last batch of an epoch.

XLA compiles it for the shapes it gets, and that one may be smaller: it is left to the own function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowstep.frameworks.keras.inside._train_functions import SETTLING, TrainFunction, TrainStep
from slowstep.frameworks.tensorflow.inside._input.asked import AskedIterators, Asking
from slowstep.record.experiment.training import Training


class ButTheLast(TrainFunction):
    """The other train function, but for the last batch of an epoch."""

    def __init__(self, training: Training, model: Any, attributes: Mapping[str, Any], *, step: TrainStep | None = None) -> None:
        self._is_last = False
        self._asked = training.recorder.shared(AskedIterators)
        super().__init__(training, model, attributes, settling=SETTLING, step=step)
        self._asked.join(self)

    def asks(self, asking: Asking) -> None:
        """A call is about to be made."""
        self._is_last = asking.is_last or asking.may_be_last

    def ready(self) -> bool:
        """Whether it is compiled, and the last batch of an epoch will be known. Raises NotApplicable where it cannot be."""
        return super().ready() and self._asked.length_is_known

    def remove(self) -> None:
        """Put back what there was."""
        super().remove()
        self._asked.leave(self)

    def _is_wanted(self) -> bool:
        return super()._is_wanted() and not self._is_last
