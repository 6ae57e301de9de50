"""Batches in pinned memory, from which copies to an accelerator are faster and may run beside other work.

What it changes:
    A second loader, like the training's own but with pin_memory=True, is started beside it; while the lever is on the training gets that
    one's batches. A thread of the training process copies them into pinned memory.
What it answers:
    Whether faster copies outweigh the copying. Copies run beside other work only where the script asks for it (`non_blocking=True`).
When it has no meaning:
    Without an accelerator, where batches are pinned already, and where the loader cannot be built a second time (see workers).
How it is undone:
    As workers; the thread ends with them.
"""

from __future__ import annotations

import sys
from typing import Any

from slowstep.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.record.experiment.lever import DEMAND, ORDER, Change, Lever, LeverSpec, NotApplicable
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


LEVER = Lever(name="pin-memory", changes=frozenset({ORDER, DEMAND}), prepare=prepare, build=at_building(arguments))
