"""One batch of the pipeline of tf.data that Keras' fit reads, again and again."""

from __future__ import annotations

from slowstep.frameworks.tensorflow.inside._input.cached import CachedPipeline
from slowstep.levers.constant_batch import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A ring of one batch. Raises NotApplicable where no pipeline of tf.data feeds a call of fit."""
    return CachedPipeline(training, 1)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
