"""Cached batches in the place of a pipeline of tf.data."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks.tensorflow.inside._input.asked import Asking
from slowstep.frameworks.tensorflow.inside._input.changing import PipelineChange
from slowstep.frameworks.tensorflow.inside._input.resources import over
from slowstep.record.experiment.training import Training


class CachedPipeline(PipelineChange):
    """Gives so many of the next real batches in turn. Raises as every change of a pipeline."""

    def __init__(self, training: Training, size: int) -> None:
        super().__init__(training, needs=size)
        self._ring: Any = None

    def resource(self, asking: Asking) -> Any:
        """The ring."""
        if self._ring is None:
            own = self._handed.own(asking.iterator)
            self._ring = over(asking.iterator, own, self._kept.batches[: self.needs], repeats=True)
        return self._ring

    def remove(self) -> None:
        """Leave nothing behind, and let the batches go."""
        super().remove()
        self._ring = None
