"""Which loaders feed a training: the one that is read last before an update, and those read beside it, in each step or in turns."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# A loader that was read before so many of the updates since it was first read feeds the training (shared with
# analyses/steps/training_passes.py).
FEEDS_SHARE: Final = 0.5
# One that goes on from update to update, a batch at a time, may take turns with others: of as many steps as a ring of cached batches has
# batches (levers/mock_loader.py) it is read in one at least. More seldom, blocks of an experiment hardly meet it.
TURNS_SHARE: Final = 1 / 16
# Of the updates since it was first read so many must have been read for, that it is read in each.
EACH_SHARE: Final = 0.95
# Read before fewer updates, it may be a validation that has just begun.
FEWEST_UPDATES: Final = 3


class Feeding:
    """Counts, by the key of a loader: how many updates it was read before, how often last, and how long (ns) it was waited for in all."""

    def __init__(self) -> None:
        self._last: Counter[int] = Counter()
        self._read: Counter[int] = Counter()
        self._waited_ns: Counter[int] = Counter()
        # Of loaders read beside others: how many updates there had been when each was first read.
        self._first: dict[int, int] = {}
        self._now_ns: dict[int, int] = {}
        self._updates = 0

    def received(self, loader: int, waited_ns: int) -> None:
        """It was asked for a batch, and waited for so long. The very first time it is the start of its workers that takes long."""
        known = loader in self._first or loader in self._now_ns
        self._now_ns[loader] = self._now_ns.get(loader, 0) + (waited_ns if known else 0)

    def updated(self, last: int | None) -> None:
        """An update has ended; before it this loader was read last."""
        for loader, waited_ns in self._now_ns.items():
            self._first.setdefault(loader, self._updates)
            self._read[loader] += 1
            self._waited_ns[loader] += waited_ns
        self._now_ns.clear()
        self._updates += 1
        if last is not None:
            self._last[last] += 1

    def forget(self, loader: int) -> None:
        """The key is another loader's from now on."""
        for counts in (self._last, self._read, self._waited_ns, self._first, self._now_ns):
            counts.pop(loader, None)

    def anchor(self, living: Container[int]) -> int | None:
        """Of the living, the loader that was read last before most updates; None where none was."""
        # A script may make a new one for each epoch.
        return next((loader for loader, _ in self._last.most_common() if loader in living), None)

    def together(self, living: Container[int], *, apart: Container[int], in_turns: Container[int]) -> list[int]:
        """The anchor, then the loaders that are read beside it, in the order in which they were first read; `apart` are not among these.
        Those `in_turns` may be read in some of the steps only.
        """
        anchor = self.anchor(living)
        if anchor is None:
            return []
        others = (loader for loader in self._first if loader in living and loader not in apart and self._feeds(loader, loader in in_turns))
        return [anchor, *(loader for loader in others if loader != anchor)]

    def is_read(self, loader: int) -> bool:
        """Whether it was read before an update."""
        return self._read[loader] > 0

    def is_read_in_each(self, loader: int) -> bool:
        """Whether it is read before every update, by and large."""
        return self._read[loader] >= max(FEWEST_UPDATES, EACH_SHARE * self._since(loader))

    def most_waited_for(self, loaders: list[int]) -> int:
        """The one of them that is waited for most in all the updates since it was first read."""
        return max(loaders, key=lambda loader: self._waited_ns[loader] / max(self._since(loader), 1))

    def _feeds(self, loader: int, takes_turns: bool) -> bool:
        read, share = self._read[loader], TURNS_SHARE if takes_turns else FEEDS_SHARE
        return read >= FEWEST_UPDATES and read >= share * self._since(loader)

    def _since(self, loader: int) -> int:
        """Updates since it was first read."""
        return self._updates - self._first.get(loader, self._updates)


class Fed(Protocol):
    """What a feeder asks of the training that it feeds (training.py)."""

    recorder: Recorder
    thread: int
    longest_step_ns: int | None

    def iterator_of(self, loader: Any) -> Any:
        """The iterator of a loader that was read last; None where none was, or it is gone."""

    def is_of(self, iterator: Any, loader: Any) -> bool:
        """Whether an iterator is a loader's own."""


class Feeder:
    """One of several loaders that feed a training, followed from one epoch to the next where the script builds it anew.

    It is then known by the place where it is built and, where several or none of those held are built there, by its data set.
    """

    def __init__(self, training: Fed, loader: Any, place: int | None, dataset: Any) -> None:
        self._training, self._place = training, place
        self._loader: weakref.ref[Any] = weakref.ref(loader)
        self._dataset = _reference(dataset)

    @property
    def recorder(self) -> Recorder:
        """The training's recorder."""
        return self._training.recorder

    @property
    def thread(self) -> int:
        """The ident of the thread that updates."""
        return self._training.thread

    @property
    def longest_step_ns(self) -> int | None:
        """As of the training."""
        return self._training.longest_step_ns

    @property
    def loader(self) -> Any:
        """The loader as it is now; None where the script has let it go."""
        return self._loader()

    @property
    def is_lost(self) -> bool:
        """Whether it is gone, and no other loader was known for it."""
        return self._loader() is None

    @property
    def iterator(self) -> Any:
        """The iterator of it that was read last; None where none was, or it is gone."""
        return self._training.iterator_of(self.loader)

    def is_input(self, iterator: Any) -> bool:
        """Whether an iterator is one of its own."""
        return self._training.is_of(iterator, self.loader)

    def is_built_at(self, place: int | None) -> bool:
        """Whether the script builds it at a place."""
        return place is not None and place == self._place

    def reads(self, dataset: Any) -> bool:
        """Whether it reads this very data set."""
        return dataset is not None and self._dataset() is dataset

    def follow(self, loader: Any, dataset: Any) -> None:
        """The script has built it anew, over this data set."""
        self._loader, self._dataset = weakref.ref(loader), _reference(dataset)


def _reference(dataset: Any) -> Callable[[], Any]:
    """Gives the data set as long as the script keeps it. A list, of which there is no weak reference, is kept."""
    try:
        return weakref.ref(dataset)
    except TypeError:
        return lambda: dataset
