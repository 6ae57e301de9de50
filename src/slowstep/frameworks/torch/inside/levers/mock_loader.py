"""Cached batches of the training's DataLoader."""

from __future__ import annotations

from slowstep.frameworks.torch.inside.levers._input.rings import rings
from slowstep.levers.mock_loader import ACROSS_EPOCHS, LEVER, RING
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A ring of the next 16 batches of the training loader. Raises NotApplicable where no torch DataLoader feeds the training."""
    return rings(training, RING, across_epochs=spec.value == ACROSS_EPOCHS)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, acts_on_loader=True)
