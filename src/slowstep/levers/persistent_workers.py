"""Workers that stay from one epoch to the next, instead of being started anew.

What it changes:
    A second loader, like the training's own but with persistent_workers=True, is started beside it; while the lever is on the training gets
    that one's batches, and a change of epoch leaves its workers alive. With the lever off the loader's own are started anew, as ever.
What it answers:
    What the starting of workers at each change of epoch costs. Only blocks with changes of epoch in them can show it (`epoch_changes`).
When it has no meaning:
    Without workers, where they are persistent already, where no change of epoch was seen before the experiment, and where the loader cannot
    be built a second time (see workers).
How it is undone:
    As workers.
"""

from __future__ import annotations

from typing import Any

from slowstep.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.record.experiment.lever import ORDER, Change, Lever, LeverSpec, NotApplicable
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
    changed = arguments(own_loader(training), spec)
    if training.starts < 2:
        raise NotApplicable("no change of epoch was seen, and workers are started at those only")
    return KeptWorkers(training, **changed)


LEVER = Lever(name="persistent-workers", changes=frozenset({ORDER}), prepare=prepare, build=at_building(arguments))
