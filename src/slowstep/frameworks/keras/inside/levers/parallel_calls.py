"""A second pipeline of tf.data whose maps make several calls at once."""

from __future__ import annotations

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.frameworks.tensorflow.inside._input.graphs import make_calls_parallel
from slowstep.frameworks.tensorflow.inside._input.rebuilt import RebuiltPipeline
from slowstep.levers.parallel_calls import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no pipeline of tf.data feeds a call of fit, or none of its maps makes its calls one by one."""
    FRAMEWORK.given.check_dataset()
    return RebuiltPipeline(training, make_calls_parallel)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
