"""A second DataLoader that pins its batches."""

from __future__ import annotations

import sys
from typing import Any

from slowstep.frameworks.torch.inside.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.levers.pin_memory import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training


def arguments(loader: Any, spec: LeverSpec) -> dict[str, Any]:
    """What it changes of a loader. Raises NotApplicable with the reason."""
    torch: Any = sys.modules["torch"]
    # Before 2.6 torch knows no accelerators in general.
    if not getattr(torch, "accelerator", torch.cuda).is_available():
        raise NotApplicable("there is no accelerator that memory could be pinned for")
    if loader.pin_memory:
        raise NotApplicable("the loader pins its batches already")
    return {"pin_memory": True}


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader with pin_memory=True. Raises as `arguments`."""
    return Rebuilt(training, **arguments(own_loader(training), spec))


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, build=at_building(arguments))
