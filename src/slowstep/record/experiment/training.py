"""What is known, from inside, of the training that an experiment is made with: its thread, its optimizer, the loader that feeds it."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.experiment.device_lead import DeviceLead, Wait
from slowstep.record.experiment.feeding import Feeder, Feeding
from slowstep.record.experiment.one_call import OneCall
from slowstep.record.framework import NO_FRAMEWORK, Framework

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Of a run's updates so many must be followed by a request for input, for that request to be the boundary (shared with
# analyses/steps/trainer.py).
BOUNDARY_SHARE: Final = 0.95
# After so many updates it is known which of several loaders is waited for: as many batches as a lever of input looks at before it is on.
ENOUGH_UPDATES: Final = 16


class Training:
    """Watches requests and updates, and knows which loader, iterator and optimizer are the training's.

    `thread` is the ident of the thread that updates; `loader` and `iterator` are None where no loader feeds the training.
    `requests` counts those for batches of the training's loader. Of several loaders that are read in each step, as by zip(), or in turns,
    that is the one which is waited for most; once the training is held, that one stays. `longest_step_ns` is how long a step of an
    experiment may take for its lever to be judged; None where nobody said. `one_call` is the call that has just
    ended, where a lever has had it make several steps. `batch_samples` is how many samples a step as it is has, where a lever has found
    that and no loader tells.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.thread = 0
        self._updates: Counter[int] = Counter()
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        # Loaders by the key of the object.
        self._feeding = Feeding()
        self._loaders: dict[int, weakref.ref[Any]] = {}
        # Whose they are.
        self._frameworks: dict[int, Framework] = {}
        self._starts: Counter[int] = Counter()
        # By the key of the object too: where the script has built it (record/experiment/building.py).
        self._places: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._loader_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        # Loaders by their iterators: a script need not hold them (`for batch in Loader(...)`).
        self._held: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._last_read: weakref.ref[Any] | None = None
        self._iterators: dict[int, weakref.ref[Any]] = {}
        self._chosen: weakref.ref[Any] | None = None
        self._feeders: tuple[Feeder, ...] = ()
        self._asked = self._after_updates = 0
        self._is_after_update = False
        self._anchor: int | None = None
        self.requests = 0
        self.longest_step_ns: int | None = None
        self._reads = LoaderReads()
        # Where loaders were built that were read last before an update.
        self._fed_from: set[int] = set()
        self.lead = DeviceLead()
        self.one_call: OneCall | None = None
        self.batch_samples: int | None = None

    def samples_found(self) -> int:
        """Those of the call that has just ended; -1 where no lever knows."""
        steps = 1 if self.one_call is None else self.one_call.steps
        return -1 if self.batch_samples is None else self.batch_samples * steps

    def called_once(self, steps: int, began_ns: int) -> None:
        """A lever has had one call, which began then, make so many steps that are calls of their own as it is; the boundary is its end."""
        self.one_call = OneCall(steps=steps, began_ns=began_ns)

    def built(self, loader: Any, place: int) -> None:
        """The script has built a loader at a place."""
        self._places[id(loader)] = weakref.ref(loader), place

    def started(self, loader: Any, iterator: Any, framework: Framework = NO_FRAMEWORK) -> None:
        """A loader of a framework was asked for an iterator."""
        key = id(loader)
        if (known := self._loaders.get(key)) is None or known() is not loader:
            # An id is used again once its object is gone.
            self._loaders[key] = weakref.ref(loader)
            self._feeding.forget(key)
            self._iterators.pop(key, None)
            self._starts[key] = 0
            self._reads.forget(key)
            self._frameworks[key] = framework
            self._follow(loader)
        self._loader_of[iterator] = key
        self._starts[key] += 1
        # Else both would live for ever.
        if not framework.holds_iterator(loader, iterator):
            self._held[iterator] = loader
        self._reads.started(iterator)

    def requested(self, iterator: Any) -> bool:
        """An iterator is asked for a batch, on this thread. Returns whether it is the training thread's first since its update."""
        self._last_read = weakref.ref(iterator)
        loader, is_own = self._loader_of.get(iterator), threading.get_ident() == self.thread
        if loader is not None:
            self._iterators[loader] = self._last_read
        if self.is_input(iterator):
            self.requests += 1
        elif loader is not None and is_own and self.recorder.local.me.making is None:
            self._reads.read(iterator, loader, self._after_updates, has_gradient=self._frameworks[loader].has_gradient()())
        first = self._is_after_update and is_own
        if first:
            self._is_after_update = False
            self._asked += 1
        return first

    def received(self, iterator: Any, waited_ns: int, *, is_batch: bool = True) -> None:
        """It gave one after so long, or (`is_batch` False) has ended."""
        loader, is_own = self._loader_of.get(iterator), self.thread in (0, threading.get_ident())
        # A batch that another loader's data set asks for is waited for as a part of that one's.
        if loader is not None and is_own and self.recorder.local.me.making is None:
            self._feeding.received(loader, waited_ns)
            self._reads.received(iterator, loader, is_batch=is_batch)

    def updated(self, optimizer: Any, wait: Wait | None = None) -> bool:
        """An optimizer has updated, or has handed that over, on this thread. Returns whether it is the anchor optimizer."""
        key = id(optimizer)
        if key not in self._optimizers or self._optimizers[key]() is not optimizer:
            self._optimizers[key], self._updates[key] = weakref.ref(optimizer), 0
        self._updates[key] += 1
        if key != self._anchor and (self._anchor is None or self._updates[key] > self._updates[self._anchor]):
            self._anchor = key
        if key != self._anchor:
            return False
        self.thread = threading.get_ident()
        self.lead.updated(wait)
        self._after_updates += 1
        self._is_after_update = True
        read = None if self._last_read is None else self._last_read()
        last = None if read is None else self._loader_of.get(read)
        self._feeding.updated(last)
        if last is not None and (place := self._places.get(last)) is not None:
            self._fed_from.add(place[1])
        self._choose()
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
    def optimizers(self) -> list[Any]:
        """All that have updated, and are still there."""
        return [optimizer for known in list(self._optimizers.values()) if (optimizer := known()) is not None]

    @property
    def loader(self) -> Any:
        """The loader that was read last before most updates, of those that are still there; None where none was.

        Where it is read together with others it is the one of them that is waited for most.
        """
        if self._feeders:
            return self._feeders[0].loader
        chosen = None if self._chosen is None else self._chosen()
        return self._choose() if chosen is None else chosen

    def _choose(self) -> Any:
        if self._feeders:
            return None
        living = self._living()
        # Where loaders are changed as they are built, it is the one at that place: the change is to make the wait for it shorter.
        together = [key for key, loader in living.items() if self._is_changed(loader) and self._feeding.is_read(key)] or self._together()
        loader = living[self._feeding.most_waited_for(together)] if together else None
        self._chosen = None if loader is None else weakref.ref(loader)
        return loader

    def _is_changed(self, loader: Any) -> bool:
        place = self.recorder.loader_place
        return place is not None and place == self._place_of(loader)

    @property
    def feeders(self) -> tuple[Training | Feeder, ...]:
        """All loaders that feed the training: the one that is called its own, and those beside it once it is held."""
        return self, *self._feeders[1:]

    def hold(self) -> None:
        """From now on waits are the doing of levers: what is the training's loader by now stays so, and so do those beside it."""
        loader, living = self.loader, self._living()
        together = [living[key] for key in self._together()]
        if len(together) > 1 and not self._feeders:
            ordered = sorted(together, key=lambda each: each is not loader)
            self._feeders = tuple(Feeder(self, each, self._place_of(each), self._dataset_of(each)) for each in ordered)

    @property
    def is_feeder_known(self) -> bool:
        """Whether enough was seen to tell which of several loaders is waited for most; True where there is one."""
        return self._after_updates >= ENOUGH_UPDATES or len(self._living()) < 2

    @property
    def is_lost(self) -> bool:
        """Whether the loader that was held is gone, and none is known that the script has built in its place."""
        return bool(self._feeders) and self._feeders[0].is_lost

    def _follow(self, loader: Any) -> None:
        """A loader that was not there before may be one of those held, built anew for another epoch."""
        place = self._place_of(loader)
        here = [feeder for feeder in self._feeders if feeder.is_built_at(place)]
        # The first of all may be built elsewhere than those of later epochs.
        there = here or [feeder for feeder in self._feeders if feeder.is_lost]
        found = here if len(here) == 1 else [feeder for feeder in there if feeder.reads(self._dataset_of(loader))]
        if len(found) == 1:
            found[0].follow(loader, self._dataset_of(loader))

    def _dataset_of(self, loader: Any) -> Any:
        return self._frameworks[id(loader)].dataset_of(loader)

    def _living(self) -> dict[int, Any]:
        return {key: loader for key, known in self._loaders.items() if (loader := known()) is not None}

    def _together(self) -> list[int]:
        return self._feeding.together(self._living(), apart=self._reads.validations, in_turns=self._reads.across)

    def _place_of(self, loader: Any) -> int | None:
        known, place = self._places.get(id(loader), (None, None))
        return place if known is not None and known() is loader else None

    @property
    def place(self) -> int | None:
        """Where the script has built that loader; None where nobody saw it, or one that is read beside it is built there too."""
        place = self._place_of(self.loader)
        return None if any(feeder.is_built_at(place) for feeder in self._feeders[1:]) else place

    @property
    def loader_framework(self) -> Framework:
        """Whose that loader is; that of nobody where none feeds the training."""
        return self._frameworks.get(id(self.loader), NO_FRAMEWORK)

    @property
    def starts(self) -> int:
        """How often an iterator of that loader was asked for: once an epoch."""
        loader = self.loader
        return 0 if loader is None else self._starts[id(loader)]

    @property
    def iterator(self) -> Any:
        """The iterator of that loader that was read last; None where none was, or it is gone."""
        return self.iterator_of(self.loader)

    def iterator_of(self, loader: Any) -> Any:
        """The same of any loader."""
        known = None if loader is None else self._iterators.get(id(loader))
        return None if known is None else known()

    def is_input(self, iterator: Any) -> bool:
        """Whether an iterator is one of the training loader's own, and not one that somebody else (a lever, a validation) reads."""
        return self.is_of(iterator, self.loader)

    def is_of(self, iterator: Any, loader: Any) -> bool:
        """Whether an iterator is one of a loader's own."""
        return loader is not None and self._loader_of.get(iterator) == id(loader)

    def is_validation(self, iterator: Any) -> bool:
        """Whether an iterator is of a loader that is read between two updates, several batches at a time, and never across one."""
        loader = self._loader_of.get(iterator)
        return loader is not None and loader in self._reads.validations and not (self.is_input(iterator) or self._may_feed(loader))

    def _may_feed(self, loader: int) -> bool:
        """Whether what is read so may be a step's input: batches that it joins, of an iterator of its own.

        One that no update has followed yet is the training's for a new epoch where that has none, or where it was built like it.
        """
        if self._feeding.is_read(loader):
            return self._feeding.is_read_in_each(loader) and self._reads.has_gradient(loader)
        return self.loader is None or self._places.get(loader, (None, None))[1] in self._fed_from

    @property
    def validates(self) -> bool:
        """Whether a loader was read that way so far."""
        return any(not self._may_feed(loader) for loader in self._reads.validations)

    @property
    def longest_validation(self) -> int:
        """How many batches the longest of these readings has had so far."""
        return self._reads.longest


class LoaderReads:
    """Loaders beside the training's, by how they are read: several batches between two updates, or one after each."""

    def __init__(self) -> None:
        self._read_at: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._within: set[int] = set()
        self._across: set[int] = set()
        self._without_gradient: set[int] = set()
        self._given: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.longest = 0

    def started(self, iterator: Any) -> None:
        """An iterator begins, perhaps anew."""
        self._read_at.pop(iterator, None)
        self._given.pop(iterator, None)

    def read(self, iterator: Any, loader: int, updates: int, *, has_gradient: bool) -> None:
        """A batch of it is asked for after so many updates, while operations are differentiated, or not."""
        if not has_gradient:
            self._without_gradient.add(loader)
        before = self._read_at.get(iterator)
        self._read_at[iterator] = updates
        if before is not None:
            (self._within if before == updates else self._across).add(loader)

    def received(self, iterator: Any, loader: int, *, is_batch: bool) -> None:
        """It gave a batch, or has ended. A second request may be the one that learns that there is but one batch."""
        given = self._given[iterator] = self._given.get(iterator, 0) + is_batch
        if loader in self._within and loader not in self._across:
            self.longest = max(self.longest, given)

    def forget(self, loader: int) -> None:
        """The key is another loader's from now on."""
        self._within.discard(loader)
        self._across.discard(loader)
        self._without_gradient.discard(loader)

    def has_gradient(self, loader: int) -> bool:
        """Whether operations were differentiated whenever it was read."""
        return loader not in self._without_gradient

    @property
    def validations(self) -> set[int]:
        """Keys of loaders that validate."""
        return self._within - self._across

    @property
    def across(self) -> set[int]:
        """Keys of loaders of which every update takes one batch at most."""
        return self._across - self._within
