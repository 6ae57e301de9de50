"""Another number of batches that each worker makes ahead.

What it changes:
    A second loader, like the training's own but for its prefetch_factor, is started beside it; while the lever is on the training gets that
    one's batches.
What it answers:
    Whether batches that take longer than usual now and then are better hidden. It cannot help where workers are too slow on average.
When it has no meaning:
    Without workers, where the factor is that already, and where the loader cannot be built a second time (see workers).
How it is undone:
    As workers.
"""

from __future__ import annotations

from typing import Any

from slowstep.levers._input.count import count_of
from slowstep.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.record.experiment.lever import ORDER, Change, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training


def _read(spec: LeverSpec) -> int:
    return count_of(spec, least=1)


def arguments(loader: Any, spec: LeverSpec) -> dict[str, Any]:
    """What it changes of a loader. Raises NotApplicable with the reason, and ValueError for an N under 1."""
    factor = _read(spec)
    if loader.num_workers == 0:
        raise NotApplicable("the loader has no workers")
    if loader.prefetch_factor == factor:
        raise NotApplicable(f"each worker makes {factor} batches ahead already")
    return {"prefetch_factor": factor}


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader with prefetch_factor=N. Raises as `arguments`."""
    return Rebuilt(training, **arguments(own_loader(training), spec))


LEVER = Lever(name="prefetch", takes="N", changes=frozenset({ORDER}), prepare=prepare, build=at_building(arguments), read=_read)
