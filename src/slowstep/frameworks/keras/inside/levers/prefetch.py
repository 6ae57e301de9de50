"""A second pipeline of tf.data that makes batches ahead of the training."""

from __future__ import annotations

from functools import partial

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.frameworks.tensorflow.inside._input.graphs import make_ahead
from slowstep.frameworks.tensorflow.inside._input.rebuilt import RebuiltPipeline
from slowstep.levers.prefetch import LEVER, read_prefetch
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no pipeline of tf.data feeds a call of fit, or it makes batches ahead already."""
    FRAMEWORK.given.check_dataset()
    return RebuiltPipeline(training, partial(make_ahead, batches=read_prefetch(spec)))


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
