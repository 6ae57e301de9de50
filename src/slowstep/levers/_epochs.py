"""How far the training's own iterators are in their epochs, whoever gave the batches."""

from __future__ import annotations

import weakref
from typing import Any, Final

_MAP_STYLE: Final = 0


class Epochs:
    """What is known of iterators of the training's loader, each by itself."""

    def __init__(self) -> None:
        self._lengths: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()
        self._mixed: weakref.WeakSet[Any] = weakref.WeakSet()
        self._over: weakref.WeakSet[Any] = weakref.WeakSet()

    def left(self, own: Any) -> int | None:
        """How many batches the epoch still has; None where its length is nobody's idea. Of a stream it is what the script was told."""
        if own not in self._lengths:
            self._lengths[own] = _length(own)
        length = self._lengths[own]
        return None if length is None else length - int(own._num_yielded)

    def mix(self, own: Any) -> None:
        """Batches that are not its own were given in its place, or its own were thrown away: it cannot tell its end any more."""
        self._mixed.add(own)

    def is_mixed(self, own: Any) -> bool:
        """Whether that has happened in this epoch."""
        return own in self._mixed

    def end(self, own: Any) -> None:
        """It has raised StopIteration by itself, or was ended."""
        self._over.add(own)

    def is_over(self, own: Any) -> bool:
        """Whether it gives no more batches."""
        return own in self._over

    def begin(self, own: Any) -> None:
        """It begins a new epoch."""
        self._lengths.pop(own, None)
        self._mixed.discard(own)
        self._over.discard(own)


def _length(own: Any) -> int | None:
    if own.__dict__.get("_dataset_kind") != _MAP_STYLE:
        told = own.__dict__.get("_IterableDataset_len_called")
        return told if isinstance(told, int) else None
    try:
        return len(own._index_sampler)
    except Exception:
        # Whatever the __len__ of a sampler raises, or its absence.
        return None
