"""A second DataLoader whose workers stay."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks.torch.inside._loader.between_passes import BetweenPasses
from slowstep.frameworks.torch.inside.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.levers.persistent_workers import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training


def arguments(loader: Any, spec: LeverSpec) -> dict[str, Any]:
    """What it changes of a loader. Raises NotApplicable with the reason."""
    if loader.num_workers == 0:
        raise NotApplicable("the loader has no workers")
    if loader.persistent_workers:
        raise NotApplicable("the workers are persistent already")
    return {"persistent_workers": True}


class KeptWorkers(Rebuilt):
    """A loader with persistent workers; `effect` counts the changes of epoch, at which alone it does anything else than the own one."""

    def gave(self) -> None:
        """A batch is no change."""

    def renew(self, left: int | None) -> None:
        """Begin an epoch with the same workers."""
        super().renew(left)
        self.effect = self.epochs


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader with persistent workers. Raises NotApplicable with the reason."""
    loader = own_loader(training)
    changed = arguments(loader, spec)
    if names := training.recorder.shared(BetweenPasses).seen(loader):
        raise NotApplicable(f"the script changes {', '.join(names)} of the data set between epochs: workers that stay would not see that")
    if training.starts < 2:
        raise NotApplicable("no change of epoch was seen, and workers are started at those only")
    return KeptWorkers(training, **changed)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, build=at_building(arguments), acts_on_loader=True)
