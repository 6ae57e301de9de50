"""The training's loader once more, to be read alone: the same data set, batches, epochs and collate, with another number of workers."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from slowstep.frameworks.torch.inside.levers._input.rebuilt import again
from slowstep.frameworks.torch.inside.tasks._plain import plain
from slowstep.record.experiment.lever import NotApplicable


class Noted:
    """A sampler that notes how long its batches are."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = source
        self.lengths: deque[int] = deque()

    def __iter__(self) -> Iterator[Any]:
        for index in self._source:
            self.lengths.append(len(index) if isinstance(index, (list, tuple)) else -1)
            yield index


class LoaderAgain:
    """A loader built again. `lengths` are the samples of the batches in the order asked for (-1 unknown); None for a stream.

    Its workers live as long as the loader's own do: one epoch, or, persistent, all of them. `epoch_batches` is the length of an epoch; None
    where nobody says it. Raises NotApplicable for a loader that keeps what is changed in a way of its own, and for data that the training
    would miss.
    """

    def __init__(self, loader: Any, workers: int, *, init: Callable[[int], None] | None = None, timeout_s: float = 0.0) -> None:
        if not workers and is_stream(loader) and hasattr(loader.dataset, "__next__"):
            raise NotApplicable("its data set is an iterator, which can be read once only")
        sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        self._noted = None if is_stream(loader) else Noted(sampler)
        self.epoch_batches = None if is_stream(loader) else _length(sampler)
        self.is_persistent = bool(workers and loader.persistent_workers)
        changed: dict[str, Any] = {"num_workers": workers, "persistent_workers": self.is_persistent}
        if workers:
            changed |= {"worker_init_fn": init, "timeout": timeout_s}
        if self._noted is not None:
            changed["sampler" if loader.batch_sampler is None else "batch_sampler"] = self._noted
        self.loader = again(loader, **changed)

    def start(self) -> Any:
        """An iterator of it, which no recorder sees. Raises what the start of its workers raises."""
        self._forget()
        with warnings.catch_warnings():
            # More workers than cores are what is to be tried.
            warnings.simplefilter("ignore")
            return plain(type(self.loader)._get_iterator)(self.loader)

    def restart(self, iterator: Any) -> None:
        """Begin the next epoch with the same workers, where they are persistent."""
        self._forget()
        plain(type(iterator)._reset)(iterator, self.loader)

    @property
    def lengths(self) -> deque[int] | None:
        """Lengths of batches asked for and not taken out of here yet."""
        return None if self._noted is None else self._noted.lengths

    def _forget(self) -> None:
        """What was asked for and never received, since its iterator was ended."""
        if self._noted is not None:
            self._noted.lengths.clear()


def is_stream(loader: Any) -> bool:
    """Whether a loader reads an iterable data set: nobody tells it which sample comes next, and it ends when it ends."""
    return bool(loader._dataset_kind)


def _length(sampler: Any) -> int | None:
    try:
        return len(sampler)
    except Exception:  # whatever the script's own sampler raises, or its having no length
        return None
