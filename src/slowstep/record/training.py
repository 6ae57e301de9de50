"""What is known, from inside, of the training that an experiment is made with: its thread, its optimizer, the loader that feeds it."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Of a run's updates so many must be followed by a request for input, for that request to be the boundary (shared with analyses/trainer.py).
BOUNDARY_SHARE: Final = 0.95


class Training:
    """Watches requests and updates, and knows which loader, iterator and optimizer are the training's.

    `thread` is the ident of the thread that updates; `loader` and `iterator` are None where no torch DataLoader feeds the training.
    `requests` counts those for batches of the training's loader. `longest_step_ns` is how long a step of an experiment may take for its
    lever to be judged; None where nobody said.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.thread = 0
        self._updates: Counter[int] = Counter()
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        # Loaders by the key of the object: how often they were read last before an update.
        self._fed: Counter[int] = Counter()
        self._loaders: dict[int, weakref.ref[Any]] = {}
        self._starts: Counter[int] = Counter()
        # By the key of the object too: where the script has built it (record/building.py).
        self._places: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._loader_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        # Loaders by their iterators: a script need not hold them (`for batch in DataLoader(...)`).
        self._held: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._last_read: weakref.ref[Any] | None = None
        self._iterator: weakref.ref[Any] | None = None
        self._asked = self._after_updates = 0
        self._is_after_update = False
        self._anchor: int | None = None
        self.requests = 0
        self.longest_step_ns: int | None = None
        self._reads = Reads()

    def built(self, loader: Any, place: int) -> None:
        """The script has built a loader at a place."""
        self._places[id(loader)] = weakref.ref(loader), place

    def started(self, loader: Any, iterator: Any) -> None:
        """A loader was asked for an iterator."""
        key = id(loader)
        if (known := self._loaders.get(key)) is None or known() is not loader:
            # An id is used again once its object is gone.
            self._loaders[key] = weakref.ref(loader)
            self._fed.pop(key, None)
            self._starts[key] = 0
            self._reads.forget(key)
        self._loader_of[iterator] = key
        self._starts[key] += 1
        # One with persistent workers holds its iterator itself, and both would live for ever.
        if getattr(loader, "_iterator", None) is not iterator:
            self._held[iterator] = loader
        self._reads.started(iterator)

    def requested(self, iterator: Any) -> bool:
        """An iterator is asked for a batch, on this thread. Returns whether it is the training thread's first since its update."""
        self._last_read = weakref.ref(iterator)
        loader, is_own = self._loader_of.get(iterator), threading.get_ident() == self.thread
        if loader is not None and self.is_input(iterator):
            self._iterator = self._last_read
            self.requests += 1
        elif loader is not None and is_own and self.recorder.local.me.making is None:
            self._reads.read(iterator, loader, self._after_updates)
        first = self._is_after_update and is_own
        if first:
            self._is_after_update = False
            self._asked += 1
        return first

    def updated(self, optimizer: Any) -> bool:
        """An optimizer has updated, on this thread. Returns whether it is the anchor optimizer."""
        key = id(optimizer)
        if key not in self._optimizers or self._optimizers[key]() is not optimizer:
            self._optimizers[key], self._updates[key] = weakref.ref(optimizer), 0
        self._updates[key] += 1
        if key != self._anchor and (self._anchor is None or self._updates[key] > self._updates[self._anchor]):
            self._anchor = key
        if key != self._anchor:
            return False
        self.thread = threading.get_ident()
        self._after_updates += 1
        self._is_after_update = True
        read = None if self._last_read is None else self._last_read()
        if read is not None and (loader := self._loader_of.get(read)) is not None:
            self._fed[loader] += 1
        return True

    @property
    def boundary_is_request(self) -> bool:
        """Whether steps end where the training thread first asks for input after an update; else where the update ends."""
        return self._after_updates > 0 and self._asked >= BOUNDARY_SHARE * (self._after_updates - 1)

    @property
    def updates(self) -> int:
        """Updates of the anchor optimizer so far."""
        return 0 if self._anchor is None else self._updates[self._anchor]

    @property
    def optimizer(self) -> Any:
        """The anchor optimizer; None before the first update."""
        return None if self._anchor is None else self._optimizers[self._anchor]()

    @property
    def loader(self) -> Any:
        """The torch DataLoader that was read last before most updates, of those that are still there; None where none was."""
        # A script may make a new one for each epoch.
        return next((loader for key, _ in self._fed.most_common() if (loader := self._loaders[key]()) is not None), None)

    @property
    def place(self) -> int | None:
        """Where the script has built that loader; None where nobody saw it."""
        loader = self.loader
        known, place = self._places.get(id(loader), (None, None))
        return place if known is not None and known() is loader else None

    @property
    def starts(self) -> int:
        """How often an iterator of that loader was asked for: once an epoch."""
        loader = self.loader
        return 0 if loader is None else self._starts[id(loader)]

    @property
    def iterator(self) -> Any:
        """The iterator of that loader that was read last; None where none was, or it is gone."""
        return None if self._iterator is None else self._iterator()

    def is_input(self, iterator: Any) -> bool:
        """Whether an iterator is one of the training loader's own, and not one that somebody else (a lever, a validation) reads."""
        loader = self.loader
        return loader is not None and self._loader_of.get(iterator) == id(loader)

    def is_validation(self, iterator: Any) -> bool:
        """Whether an iterator is of a loader that is read between two updates, several batches at a time, and never across one."""
        return self._loader_of.get(iterator) in self._reads.validations and not self.is_input(iterator)

    @property
    def validates(self) -> bool:
        """Whether a loader was read that way so far."""
        return bool(self._reads.validations)


class Reads:
    """Loaders beside the training's, by how they are read: several batches between two updates, or one after each."""

    def __init__(self) -> None:
        self._read_at: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._within: set[int] = set()
        self._across: set[int] = set()

    def started(self, iterator: Any) -> None:
        """An iterator begins, perhaps anew."""
        self._read_at.pop(iterator, None)

    def read(self, iterator: Any, loader: int, updates: int) -> None:
        """A batch of it is asked for after so many updates."""
        before = self._read_at.get(iterator)
        self._read_at[iterator] = updates
        if before is not None:
            (self._within if before == updates else self._across).add(loader)

    def forget(self, loader: int) -> None:
        """The key is another loader's from now on."""
        self._within.discard(loader)
        self._across.discard(loader)

    @property
    def validations(self) -> set[int]:
        """Keys of loaders that validate."""
        return self._within - self._across
