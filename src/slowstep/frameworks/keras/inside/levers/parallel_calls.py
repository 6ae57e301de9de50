"""A second pipeline of tf.data whose maps make several calls at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowstep.frameworks.keras.inside.levers._own_pipeline import check_own_pipeline
from slowstep.frameworks.tensorflow.inside._input.graphs import make_calls_parallel
from slowstep.frameworks.tensorflow.inside._input.rebuilt import RebuiltPipeline
from slowstep.levers.parallel_calls import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no pipeline of tf.data feeds a call of fit, or none of its maps makes its calls one by one."""
    check_own_pipeline()
    return RebuiltPipeline(training, _change)


def _change(graph: Any) -> Mapping[str, Any]:
    return {"parallel_maps": make_calls_parallel(graph)}


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
