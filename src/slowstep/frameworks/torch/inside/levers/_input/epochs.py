"""How far the training's own iterators are in their epochs, whoever gave the batches."""

from __future__ import annotations

import math
import weakref
from typing import Any, Final

_MAP_STYLE: Final = 0


class IteratorEpochs:
    """What is known of iterators of the training's loader, each by itself."""

    def __init__(self) -> None:
        self._lengths: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()
        self._spare: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._over: weakref.WeakSet[Any] = weakref.WeakSet()

    def left(self, own: Any) -> int | None:
        """How many batches the epoch still has; None where its length is nobody's idea. Of a stream it is what the script was told."""
        if own not in self._lengths:
            self._lengths[own] = length_of(own)
        length = self._lengths[own]
        return None if length is None else length - int(own._num_yielded)

    def replace(self, own: Any) -> None:
        """A batch that is not its own is given in its place."""
        self._spare[own] = self._spare.get(own, 0) + 1

    def discard(self, own: Any, count: int) -> None:
        """Batches of its own were discarded."""
        self._spare[own] = self._spare.get(own, 0) - count

    def spare(self, own: Any) -> int | None:
        """How many of its own batches can be discarded without its being at its end too early; None where there is no such limit."""
        return None if has_indices(own) or self.left(own) is None else max(self._spare.get(own, 0), 0)

    def is_mixed(self, own: Any) -> bool:
        """Whether any of that has happened in this epoch: it cannot tell its end by itself."""
        return own in self._spare

    def end(self, own: Any) -> None:
        """It has raised StopIteration by itself, or was ended."""
        self._over.add(own)

    def is_over(self, own: Any) -> bool:
        """Whether it gives no more batches."""
        return own in self._over

    def begin(self, own: Any) -> None:
        """It begins a new epoch."""
        self._lengths.pop(own, None)
        self._spare.pop(own, None)
        self._over.discard(own)


def has_indices(own: Any) -> bool:
    """Whether its batches are made of a sampler's indices, which can be begun anew; a stream ends where its data ends."""
    return bool(own.__dict__.get("_dataset_kind") == _MAP_STYLE)


def length_of(own: Any) -> int | None:
    """The batches of an iterator's epoch; None where that is nobody's idea."""
    try:
        if has_indices(own):
            return len(own._index_sampler)
        told: int | None = own._IterableDataset_len_called
        if told is None or not own._auto_collation:
            return told
        size: int = own._index_sampler.batch_size
        return told // size if own._drop_last else math.ceil(told / size)
    except Exception:
        # Whatever the __len__ of a sampler raises, or its absence.
        return None
