"""The indices that an iterator of torch's DataLoader makes its batches of, as many as are wanted, and how many samples they hold."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class BatchSizes:
    """Samples in a batch: `full` in all of an epoch but the last, `last` in that one, which is fewer.

    `length`: after how many batches the sampler itself gives the short one; None where it never does.
    """

    full: int
    last: int
    length: int | None


class RepeatedSampler:
    """A sampler that gives the same indices again and again, in epochs that end as those of another sampler."""

    def __init__(self, indices: list[Any], like: Any) -> None:
        sizes = sizes_of(like)
        self.sizes = None if sizes is None else BatchSizes(full=sizes.full, last=sizes.last, length=None)
        full = [batch for batch in indices if sizes is None or len(batch) == sizes.full]
        # An epoch of one short batch has no others.
        self._indices = full or indices

    def __iter__(self) -> Iterator[Any]:
        return itertools.cycle(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


def sizes_of(sampler: Any) -> BatchSizes | None:
    """How large the batches of an epoch are; None where all are alike, or nothing is known: of a batch sampler of the script's own, of
    single indices, and where nobody knows the epoch's length.
    """
    if isinstance(sampler, RepeatedSampler):
        return sampler.sizes
    if type(sampler) is not sys.modules["torch.utils.data.sampler"].BatchSampler or sampler.drop_last:
        return None
    try:
        samples, length, full = len(sampler.sampler), len(sampler), int(sampler.batch_size)
    except Exception:
        # Whatever the __len__ of a sampler raises, or its absence.
        return None
    last = samples % full
    return BatchSizes(full=full, last=last, length=length) if last else None


class Supply:
    """The indices for an iterator, as many as are wanted: its sampler is begun anew when it has no more.

    The script's place in its epoch is that of `left`, not the sampler's: a short batch is given as the epoch's last and nowhere else, for
    what is read beside it (another loader, by zip()) has its short one there. `left` None: without end. `sent`: how many batches the
    iterator has had of its sampler in this epoch.
    """

    def __init__(self, indices: Iterator[Any], sampler: Any, sent: int = 0) -> None:
        self._indices, self._sampler = indices, sampler
        self._sizes: Final = sizes_of(sampler)
        self._sent = sent
        # Which of the batches sent are short, by their number.
        self._short = set[int]()
        if (sizes := self._sizes) is not None and sizes.length is not None and sizes.length <= sent:
            self._short.add(sizes.length - 1)
        self.left: int | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.left is not None:
            if self.left <= 0:
                raise StopIteration
            self.left -= 1
        batch = self._next_index()
        if (sizes := self._sizes) is not None:
            batch = self._fitted(batch, sizes)
            if len(batch) < sizes.full:
                self._short.add(self._sent)
        self._sent += 1
        return batch

    def _next_index(self) -> Any:
        try:
            return next(self._indices)
        except StopIteration:
            self._indices = iter(self._sampler)
            return next(self._indices)

    def _fitted(self, batch: Any, sizes: BatchSizes) -> Any:
        if self.left is None:
            return batch
        wanted = sizes.last if self.left == 0 else sizes.full
        if len(batch) < wanted:
            # The sampler's last one. It is not asked for ever: its length may be untrue.
            batch = self._next_index()
        return batch[:wanted]

    def is_short(self, number: int) -> bool:
        """Whether the batch of that number, of those sent in this epoch of the iterator, is short."""
        return number in self._short

    def misplaced(self, made: Sequence[int], left: int) -> int:
        """How many batches, the first of those that are being made (their numbers), must go: what remains is then what the `left` batches
        of the epoch begin with. 0 where all are alike or nothing is known.
        """
        if self._sizes is None:
            return 0
        short = [self.is_short(number) for number in made]
        return next(gone for gone in range(len(short) + 1) if _begins(short[gone:], left))

    def remaining(self) -> Iterator[Any]:
        """What is left, without this object where that ends its epoch as it must."""
        if self.left is None:
            return self._indices
        return itertools.islice(self._indices, max(self.left, 0)) if self._sizes is None else self


def _begins(short: list[bool], left: int) -> bool:
    """Whether an epoch of so many batches, the last of them alone short, begins with those."""
    return len(short) <= left and all(is_short == (at == left - 1) for at, is_short in enumerate(short))
