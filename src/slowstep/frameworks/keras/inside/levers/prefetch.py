"""A second pipeline of tf.data that makes batches ahead of the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowstep.frameworks.keras.inside.levers._own_pipeline import check_own_pipeline
from slowstep.frameworks.tensorflow.inside._input.graphs import make_ahead
from slowstep.frameworks.tensorflow.inside._input.rebuilt import RebuiltPipeline
from slowstep.levers.prefetch import LEVER, read_prefetch
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no pipeline of tf.data feeds a call of fit, or it makes batches ahead already."""
    check_own_pipeline()
    batches = read_prefetch(spec)

    def change(graph: Any) -> Mapping[str, Any]:
        make_ahead(graph, batches)
        return {}

    return RebuiltPipeline(training, change)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
