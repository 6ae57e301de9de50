"""A function's calls, in the workers of a DataLoader too."""

from __future__ import annotations

from slowstep.frameworks.torch.inside.levers._function import prepare
from slowstep.levers.stub import LEVER
from slowstep.record.experiment.lever import Implementation

IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, acts_on_loader=True)
