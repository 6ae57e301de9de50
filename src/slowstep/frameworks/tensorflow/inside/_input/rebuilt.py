"""A second pipeline of tf.data beside the training's own, like it but for one change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._input.asked import Asking
from slowstep.frameworks.tensorflow.inside._input.changing import PipelineChange, discard, replaceable
from slowstep.frameworks.tensorflow.inside._input.graphs import graph_of
from slowstep.frameworks.tensorflow.inside._input.readiness import state_of
from slowstep.frameworks.tensorflow.inside._input.resources import started
from slowstep.frameworks.tensorflow.inside._pipelines import held_dataset
from slowstep.record.experiment.training import Training

# What lies ready of the second pipeline has risen no more for so many steps: its buffers are as they will be. Assumed.
_STEPS_STEADY: Final = 4
_STEPS_AT_LEAST: Final = 8


class RebuiltPipeline(PipelineChange):
    """Gives the batches of the second one, which begins its data anew where they end. `change` changes its graph.

    Raises as every change of a pipeline, and as `change`; NotApplicable where it cannot be built a second time.
    """

    def __init__(self, training: Training, change: Callable[[Any], None]) -> None:
        super().__init__(training)
        try:
            graph = graph_of(held_dataset(replaceable(self._asked.last)))
            change(graph)
        except BaseException:
            self.remove()
            raise
        self._graph: Any = graph
        self._second: Any = None
        self._most_ready, self._since = -1.0, 0

    def resource(self, asking: Asking) -> Any:
        """The second pipeline."""
        if self._second is None:
            dataset = sys.modules["tensorflow"].raw_ops.DatasetFromGraph(graph_def=self._graph.SerializeToString())
            self._second = started(asking.iterator, self._handed.own(asking.iterator), dataset)
        return self._second

    def on(self) -> None:
        """Give its batches from the next call on, without those that it made while it rested."""
        super().on()
        self._most_ready, self._since = -1.0, 0
        iterator = self._asked.last
        if self._second is not None and iterator is not None:
            discard(iterator, self._second, leaving=0.0)

    def settled(self) -> bool:
        """On: whether the own pipeline rests, and the buffers of the second one have filled as far as they will."""
        is_settled = super().settled()
        return (self._is_steady() and is_settled) if self._is_on else is_settled

    def _is_steady(self) -> bool:
        state = None if self._second is None else state_of(self._second)
        if state is not None and state.ready > self._most_ready + 0.5:
            self._most_ready, self._since = state.ready, self._steps
        return self._steps >= max(self._since + _STEPS_STEADY, _STEPS_AT_LEAST)

    def remove(self) -> None:
        """Leave nothing behind: the second pipeline ends."""
        super().remove()
        self._second = None
