"""What lightning is to the recorder: it stands on torch, and its frames are none of the user's."""

from __future__ import annotations

from typing import Any, Final

from slowstep.record.framework import Framework, caller

# The same code under two names.
PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")


class Lightning(Framework):
    """It has a loop, and nothing that computes."""

    name = "lightning"
    packages = ("lightning", "pytorch_lightning", "lightning_fabric")
    steering_callbacks = frozenset(
        {
            *("EarlyStopping", "Timer", "GradientAccumulationScheduler", "StochasticWeightAveraging", "WeightAveraging", "BaseFinetuning"),
            *("ModelPruning", "BatchSizeFinder", "LearningRateFinder", "SpikeDetection"),
        }
    )

    def trainer(self) -> Any:
        """The Trainer of either package whose `fit` runs."""
        found = (caller(f"{package}.trainer.trainer", "Trainer", "fit") for package in PACKAGES)
        return next((trainer for trainer in found if trainer is not None), None)


FRAMEWORK = Lightning()
