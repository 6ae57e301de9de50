"""One batch of the training's DataLoader, again and again."""

from __future__ import annotations

from slowstep.frameworks.torch.inside.levers._input.rings import rings
from slowstep.levers.constant_batch import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A ring of one batch. Raises NotApplicable where no torch DataLoader feeds the training."""
    return rings(training, 1)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, acts_on_loader=True)
