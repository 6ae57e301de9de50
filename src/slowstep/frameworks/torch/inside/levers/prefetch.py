"""A second DataLoader whose workers make another number of batches ahead."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks.torch.inside.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.levers.prefetch import LEVER, read_prefetch
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training


def arguments(loader: Any, spec: LeverSpec) -> dict[str, Any]:
    """What it changes of a loader. Raises NotApplicable with the reason, and ValueError for an N under 1."""
    factor = read_prefetch(spec)
    if loader.num_workers == 0:
        raise NotApplicable("the loader has no workers")
    if loader.prefetch_factor == factor:
        raise NotApplicable(f"each worker makes {factor} batches ahead already")
    return {"prefetch_factor": factor}


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader with prefetch_factor=N. Raises as `arguments`."""
    return Rebuilt(training, **arguments(own_loader(training), spec))


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, build=at_building(arguments), acts_on_loader=True)
