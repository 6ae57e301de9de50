"""The training's loader once more, to be read without end: the same data set, batches and collate, with another number of workers."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from slowstep.levers._rebuilt import again
from slowstep.levers._tasks._plain import plain
from slowstep.record.lever import NotApplicable


class Endless:
    """A sampler that begins again when it ends, so that no epoch ends while a loader is measured; notes how long its batches are."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = source
        self.lengths: deque[int] = deque()

    def __iter__(self) -> Iterator[Any]:
        given = True
        while given:
            given = False
            for index in self._source:
                given = True
                self.lengths.append(len(index) if isinstance(index, (list, tuple)) else -1)
                yield index


class Again:
    """A loader built again. `lengths` are the samples of the batches in the order asked for (-1 unknown); None for a stream.

    Raises NotApplicable for a loader that keeps what is changed in a way of its own, and for data that the training would miss.
    """

    def __init__(self, loader: Any, workers: int, *, init: Callable[[int], None] | None = None, timeout_s: float = 0.0) -> None:
        if not workers and is_stream(loader) and hasattr(loader.dataset, "__next__"):
            raise NotApplicable("its data set is an iterator, which can be read once only")
        self._endless = None if is_stream(loader) else Endless(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)
        changed: dict[str, Any] = {"num_workers": workers, "persistent_workers": False}
        if workers:
            changed |= {"worker_init_fn": init, "timeout": timeout_s}
        if self._endless is not None:
            changed["sampler" if loader.batch_sampler is None else "batch_sampler"] = self._endless
        self.loader = again(loader, **changed)

    def start(self) -> Any:
        """An iterator of it, which no recorder sees. Raises what the start of its workers raises."""
        with warnings.catch_warnings():
            # More workers than cores are what is to be tried.
            warnings.simplefilter("ignore")
            return plain(type(self.loader)._get_iterator)(self.loader)

    @property
    def lengths(self) -> deque[int] | None:
        """Lengths of batches asked for and not taken out of here yet."""
        return None if self._endless is None else self._endless.lengths


def is_stream(loader: Any) -> bool:
    """Whether a loader reads an iterable data set: nobody tells it which sample comes next, and it ends when it ends."""
    return bool(loader._dataset_kind)
