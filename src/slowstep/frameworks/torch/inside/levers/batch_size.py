"""Batches of another size: the training's DataLoader, built a second time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.frameworks.torch.inside.levers._input.epochs import has_indices, length_of
from slowstep.frameworks.torch.inside.levers._input.rebuilt import Rebuilt, at_building, own_loader
from slowstep.levers._input.baked import find_baked
from slowstep.levers._input.size_peaks import SizePeaks
from slowstep.levers.batch_size import LEVER, UNTOLD, read_batch_size
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.timing.batches import samples_in
from slowstep.units import format_duration

# Of its own steps so many are timed before it goes on.
FIRST_STEPS: Final = 2


class OtherSize(Rebuilt):
    """A second loader with batches of another size. Its epochs have another number of them than the script's, and go on through those
    where their length is known; else they end with the script's.
    """

    def __init__(self, training: Training, size: int, own_size: int, **changed: Any) -> None:
        self._given = 0
        self._peaks = SizePeaks(training.recorder.framework.device_memory())
        self._size, self._own_size, self._own_samples = size, own_size, set[int]()
        self._step_ns, self._first_steps_ns = 0, list[int]()
        super().__init__(training, growth=size / own_size, **changed)

    def saw(self, own: Any, batch: Any, *, is_last: bool) -> None:
        """Whether batches say how many samples they hold."""
        if not is_last:
            self._own_samples.add(samples_in(batch))

    def ready(self) -> bool:
        """Whether the peak of a few steps as they are is known. Raises NotApplicable where this size would need too much memory."""
        if self._peaks.is_known:
            return super().ready()
        if self._peaks.look():
            if self._own_samples != {self._own_size}:
                raise NotApplicable(UNTOLD)
            self._peaks.check(self._size, self._growth)
        return False

    def try_batch(self, batch: Any) -> None:
        """Raises NotApplicable where the batch is not of the size asked for."""
        if samples_in(batch) != self._size:
            raise NotApplicable(f"a batch of {samples_in(batch)} samples came where {self._size} were asked for")

    def bound(self, left: int | None) -> int | None:
        """What is left of its own epoch."""
        iterator = self._running().iterator
        length = length_of(iterator) if has_indices(iterator) else None
        return None if length is None else length - self._given

    def give(self, left: int | None) -> Any:
        """Its next batch; after the last one of its own epoch the first one of the next."""
        if self.bound(left) == 0:
            self.renew(left)
        batch = super().give(left)
        self._given += 1
        return batch

    def renew(self, left: int | None) -> None:
        """Begin its own next epoch."""
        self._given = 0
        super().renew(left)

    def begin_epoch(self, left: int | None) -> None:
        """The script's epoch is not its own."""
        if self.bound(left) is None:
            super().begin_epoch(left)

    def end(self, own: Any) -> None:
        """Nor is the end of that one."""
        if self.bound(None) is None:
            super().end(own)

    def on(self) -> None:
        """Give its batches, and begin a peak of their own."""
        super().on()
        self._peaks.begin()
        self._step_ns = now()

    def each_step(self) -> None:
        """Raises NotApplicable where even the shorter of the first two steps leaves no room for a verdict within the budget."""
        super().each_step()
        longest_ns, at_ns = self.feed.training.longest_step_ns, now()
        if longest_ns is None or len(self._first_steps_ns) == FIRST_STEPS:
            return
        self._first_steps_ns.append(at_ns - self._step_ns)
        self._step_ns, step_ns = at_ns, min(self._first_steps_ns)
        # In the first one memory is taken and kernels are chosen.
        if len(self._first_steps_ns) == FIRST_STEPS and step_ns > longest_ns:
            raise NotApplicable(
                f"a step of {self._size} samples takes {format_duration(step_ns)}, and the budget has room for steps of"
                f" {format_duration(longest_ns)}: give more --budget"
            )

    def off(self) -> None:
        """Have the loader's own come again."""
        if self.feed.is_giving(self):
            self._peaks.end()
        super().off()

    def facts(self) -> Mapping[str, Any]:
        """The sizes, and the peak of memory at each (bytes; of the device or of this process, without its workers)."""
        return {**super().facts(), "batch_size": self._size, "own_batch_size": self._own_size, **self._peaks.facts()}


def arguments(loader: Any, spec: LeverSpec) -> dict[str, Any]:
    """What batches of N change of a loader. Raises NotApplicable with the reason, and ValueError for an N under 1."""
    size = read_batch_size(spec)
    own = loader.batch_sampler
    if own is None:
        raise NotApplicable("the loader makes no batches: its data set does")
    plain = sys.modules["torch.utils.data.sampler"].BatchSampler
    if type(own) is not plain:
        raise NotApplicable(f"a batch sampler of the script's own, {type(own).__name__}, decides what is in a batch")
    if own.batch_size == size:
        raise NotApplicable(f"batches hold {size} samples already")
    # A sampler may have no length: what it holds is not known then.
    if loader._dataset_kind == 0 and hasattr(own.sampler, "__len__") and len(own.sampler) < size:
        raise NotApplicable(f"the data set has {len(own.sampler)} samples only")
    changed = {"batch_sampler": plain(own.sampler, size, own.drop_last)}
    return changed if loader.batch_size is None else changed | {"batch_size": size}


def prepare(training: Training, spec: LeverSpec) -> Change:
    """A loader with batches of N. Raises as `arguments`."""
    loader = own_loader(training)
    changed = arguments(loader, spec)
    size, own = changed["batch_sampler"].batch_size, loader.batch_sampler
    if (together := len(training.feeders)) > 1:
        raise NotApplicable(f"the training reads {together} loaders, and the batches of one alone would change what is in a step")
    if FRAMEWORK.is_bound_to_shapes() or training.recorder.framework.is_bound_to_shapes():
        raise NotApplicable("code was compiled for the shapes that it gets, and would be compiled again")
    place = None if loader._dataset_kind == 0 and _has_met_other_sizes(training, own) else find_baked(own.batch_size)
    if place is not None:
        raise NotApplicable(
            f"{place} makes a shape with {own.batch_size} in it, as many as the batch size: take the number from the batch there"
            " (`x.shape[0]`); where it is the same by chance, start from another batch size in the script"
        )
    return OtherSize(training, size, own.batch_size, **changed)


def _has_met_other_sizes(training: Training, batches: Any) -> bool:
    """Whether an epoch has ended with a smaller batch, and the training went on."""
    has_ended = training.starts > 1 and not batches.drop_last and hasattr(batches.sampler, "__len__")
    return has_ended and len(batches.sampler) % batches.batch_size != 0


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare, build=at_building(arguments), acts_on_loader=True)
