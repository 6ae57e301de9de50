"""Whether the pipeline that `fit` reads is the script's: one that Keras makes of other input cannot be written otherwise."""

from __future__ import annotations

from typing import Final

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.frameworks.keras.inside._input import DATASET
from slowstep.record.experiment.lever import NotApplicable

MADE_BY_KERAS: Final = "fit was given no tf.data.Dataset, and the pipeline is made by Keras"


def check_own_pipeline() -> None:
    """Raises NotApplicable where fit was given something else than a data set of tf.data."""
    if FRAMEWORK.given.kind != DATASET:
        raise NotApplicable(MADE_BY_KERAS)
