"""A second DataLoader with another number of workers."""

from __future__ import annotations

from typing import Any, Final

from slowstep.frameworks.torch.inside._answers.dividing import divides
from slowstep.frameworks.torch.inside._loader.between_passes import BetweenPasses
from slowstep.frameworks.torch.inside.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.frameworks.torch.inside.levers._input.stream import torch_class
from slowstep.levers.workers import LEVER, read_workers
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.units import format_count

# Of a stream: with other workers the training would be given other samples, not the same ones sooner.
REPEATS: Final = "nothing in the code of {} asks torch.utils.data.get_worker_info() which worker it is in: each may give all samples"


def arguments(loader: Any, spec: LeverSpec) -> dict[str, Any]:
    """What N workers change of a loader. Raises NotApplicable with the reason, and ValueError for an N that is no whole number."""
    workers = read_workers(spec)
    if loader.num_workers == workers:
        raise NotApplicable(f"the loader has {format_count(workers, 'worker')} already")
    if max(workers, loader.num_workers) > 1 and _gives_all_to_each(loader):
        raise NotApplicable(REPEATS.format(type(loader.dataset).__qualname__))
    if loader.num_workers == 0:
        # It has said nothing about them, and that is how serial-loader's fix has them.
        return {"num_workers": workers, "persistent_workers": True}
    return {"num_workers": workers}


def _gives_all_to_each(loader: Any) -> bool:
    is_stream = isinstance(loader.dataset, torch_class("IterableDataset"))
    return is_stream and divides(loader.dataset, loader.worker_init_fn) is False


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader with N workers. Raises as `arguments`."""
    loader = own_loader(training)
    changed = arguments(loader, spec)
    if training.recorder.shared(BetweenPasses).seen(loader):
        # Workers that stay would not see what the script changes of the data set.
        changed.pop("persistent_workers", None)
    return Rebuilt(training, **changed)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, build=at_building(arguments), acts_on_loader=True)
