"""Where the training's batches come from while levers are made ready: from its own loader, or from what the lever that is on gives.

All levers of input share one replacement of torch's functions below the hooks, so that a wait for a batch that a lever gives is recorded
like any other. The script keeps its own iterator, which counts: an epoch has as many batches as ever, whoever gave them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside.levers._input.epochs import IteratorEpochs, has_indices
from slowstep.frameworks.torch.inside.levers._input.giver import Giver
from slowstep.frameworks.torch.inside.levers._input.references import is_referred_to_only_by
from slowstep.frameworks.torch.inside.levers._input.replaced import in_place_of_torchs
from slowstep.frameworks.torch.inside.levers._input.seen import SeenBatches
from slowstep.frameworks.torch.inside.levers._input.stream import MULTI, SINGLE, Stream, torch_class
from slowstep.record.experiment.lever import NotHere
from slowstep.record.patch import Undo
from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.experiment.feeding import Feeder
    from slowstep.record.experiment.training import Training

_feeds: dict[Training | Feeder, Feed] = {}


def feed_of(training: Training | Feeder) -> Feed:
    """The one feed of a training, or of a loader that is read beside the training's own."""
    if training not in _feeds:
        _feeds[training] = Feed(training)
    return _feeds[training]


class Feed:
    """Hands out batches: the loader's own, or those of the one change that is on.

    `seen` is what is known of how the loader gives its own.
    """

    def __init__(self, training: Training | Feeder) -> None:
        self.training = training
        self.seen = SeenBatches()
        self._changes: list[Giver] = []
        self._giver: Giver | None = None
        self._taken = self._wanted = 0
        # Whether, since a change was switched on or off, as many batches were made to lie ready as usually do.
        self._is_level = True
        # The own iterator, kept while batches and epochs are another's affair; whether the script was told that it has ended; and whether
        # it began an epoch by itself since a change was switched on.
        self._own: Any = None
        self._has_ended = self._has_begun = False
        self._epochs = IteratorEpochs()
        self._elsewhere = False
        self._undo: Undo | None = None

    def join(self, change: Giver) -> None:
        """A change that may be switched on from now on."""
        if self._undo is None:
            self._originals = {name: torch_class(name)._next_data for name in (SINGLE, MULTI)}
            self._undo = in_place_of_torchs(self, self._originals)
        self._changes.append(change)

    def leave(self, change: Giver) -> None:
        """A change that is no more; with the last one everything is as it was."""
        if change not in self._changes:
            return
        if self._giver is change:
            self.give_up(change)
            if not self._is_level:
                # Nobody asks any more whether it has settled.
                self._level()
        self._changes.remove(change)
        if not self._changes and self._undo is not None:
            self._undo()
            self._undo = None
            if (own := self._own_now()) is not None:
                self._hand_back(own)
            _feeds.pop(self.training, None)

    def _hand_back(self, own: Any) -> None:
        stream, left = Stream(own, self.receive), self._epochs.left(own)
        if left is not None and left <= 0 and self._epochs.is_mixed(own) and not (self._epochs.is_over(own) or stream.is_over):
            # The epoch's last step is still going on: nobody ends it in time any more.
            stream.allow(0)
        stream.release()

    def receive(self, iterator: Any) -> Any:
        """Torch's own `_next_data`."""
        return self._originals[MULTI if isinstance(iterator, torch_class(MULTI)) else SINGLE](iterator)

    def use(self, change: Giver) -> None:
        """Have the change give the batches. Raises RuntimeError where another does."""
        if self._giver is not None:
            raise RuntimeError("two levers of one arm give the training its input")
        own = self.training.iterator
        self.seen.usual.interrupt()
        self._own = own if change.keeps_own else None
        self._giver, self._taken, self._has_ended, self._has_begun = change, 0, False, False
        self._wanted = change.begin(None if own is None else self._epochs.left(own))
        self._switched()

    def give_up(self, change: Giver) -> None:
        """Have the loader give them again, if the change is on."""
        if self._giver is not change:
            return
        self._giver, self._taken, self._own, self._wanted = None, 0, None, 1
        own = self._running_own()
        left = None if own is None else self._epochs.left(own.iterator)
        if own is not None and left is not None:
            own.allow(left)
        self._switched()

    def _switched(self) -> None:
        self._is_level = False
        if self._others_rest():
            self._level()

    def _own_now(self) -> Any:
        """The loader's own iterator, if it can be touched: where a recording ends this is another thread, and the training may be in it."""
        return self.training.iterator if threading.get_ident() == self.training.thread else None

    def _running_own(self) -> Stream | None:
        """The same below the hooks, where its epoch is not over."""
        own = self._own_now()
        if own is None or self._epochs.is_over(own):
            return None
        stream, left = Stream(own, self.receive), self._epochs.left(own)
        return None if stream.is_over or (left is not None and left <= 0) else stream

    def receive_ready(self) -> Any:
        """Where one of the loader's own batches lies ready, and its workers rest, receive it as a step does; None elsewhere."""
        own = self._own_now()
        stream = None if own is None or self._epochs.is_over(own) else Stream(own, self.receive)
        if stream is None or not stream.ready or not stream.is_idle() or self._epochs.spare(own) == 0:
            return None
        if stream.is_next_short:
            # Not beside a full batch of another loader.
            return None
        began_ns = now()
        try:
            batch = stream.take()
        except StopIteration:
            # What lay ready was the end of a stream.
            self._epochs.end(own)
            return None
        self.seen.receipts_ns.append(now() - began_ns)
        self._epochs.discard(own, 1)
        return batch

    def is_giving(self, change: Giver) -> bool:
        """Whether the batches come from it now."""
        return self._giver is change

    def is_known(self) -> bool:
        """Whether enough of the loader's own batches were seen. Raises NotApplicable where another thread reads the loader."""
        if self._elsewhere:
            raise NotHere("another thread than the training's reads the loader")
        return self.seen.is_enough()

    def is_settled(self) -> bool:
        """Whether the first batches after a switch have passed, and workers that nobody asks have filled their queues and wait."""
        return self._is_level and self._taken >= self._wanted and self._others_rest()

    def settle(self) -> bool:
        """The same, asked between two steps: the last batch before it is so comes when the others rest, and as many lie ready as usual.

        Before that the workers of both loaders would take cores from each other, and leave fewer.
        """
        if not self._is_level and self._taken >= self._wanted and self._others_rest() and self._level():
            self._taken, self._wanted = 0, 1
        return self.is_settled()

    def _others_rest(self) -> bool:
        return all(stream.is_idle() for stream in self._resting())

    def _level(self) -> bool:
        """Bring what lies ready to what usually does. Whether it was touched."""
        self._is_level = True
        own = self._own_now()
        if self._giver is not None:
            return self._giver.level(None if own is None else self._epochs.left(own))
        stream = self._running_own()
        if stream is None or not stream.has_workers:
            return False
        left, spare = self._epochs.left(stream.iterator), self._epochs.spare(stream.iterator)
        self._epochs.discard(stream.iterator, stream.bring_to(*self.seen.usual.start(), left=left, most=spare))
        self.seen.usual.interrupt()
        return True

    def _resting(self) -> list[Stream]:
        streams = [stream for change in self._changes if change is not self._giver and (stream := change.stream) is not None]
        # An own iterator that was started anew meanwhile is as it will go on being: busy now and then.
        own = self.training.iterator if self._giver is not None and not self._has_begun else None
        return streams if own is None else [*streams, Stream(own, self.receive)]

    def concerns(self, iterator: Any) -> bool:
        """Whether a request is one of the training for its input."""
        if not self.training.is_input(iterator):
            return False
        if threading.get_ident() != self.training.thread:
            self._elsewhere = True
            return False
        return True

    def next_batch(self, own: Any, original: Callable[[Any], Any]) -> Any:
        """The training's next batch. Raises StopIteration where the epoch ends, and what its own loader raises."""
        giver = self._giver
        return self._own_batch(own, original) if giver is None else self._given_batch(own, original, giver)

    def _end_in_time(self, own: Any) -> None:
        """Raises StopIteration where the epoch has had its batches, though its iterator may have more."""
        if self._epochs.is_mixed(own) and (left := self._epochs.left(own)) is not None and left <= 0:
            self._epochs.end(own)
            Stream(own, self.receive).end()
            raise StopIteration

    def _own_batch(self, own: Any, original: Callable[[Any], Any]) -> Any:
        self._end_in_time(own)
        stream = Stream(own, self.receive)
        ready, is_settled = stream.ready, self.is_settled()
        # Where its workers rest, what they made lies ready beyond doubt.
        is_ready = bool(ready) and is_settled and stream.is_idle()
        began_ns = now()
        try:
            batch = original(own)
        except StopIteration:
            self._epochs.end(own)
            raise
        self._taken += 1
        try:
            spent_ns = now() - began_ns
            if is_ready:
                self.seen.receipts_ns.append(spent_ns)
            self.seen.look(batch, ready, spent_ns, is_settled=is_settled)
            left = self._epochs.left(own)
            for change in self._changes:
                # The last batch of an epoch may hold fewer samples.
                change.saw(own, batch, is_last=left == 1)
        except Exception as error:  # the border: counted, and never raised into the training
            self.training.recorder.fault(error)
        return batch

    def _given_batch(self, own: Any, original: Callable[[Any], Any], giver: Giver) -> Any:
        if giver.error is not None:
            return self._own_instead(own, original)
        left = self._epochs.left(own)
        self._epochs.replace(own)
        try:
            if left is not None and left <= 0:
                giver.end(own)
                raise StopIteration
            batch = giver.give(left)
        except StopIteration:
            self._has_ended = True
            raise
        except Exception as error:
            # The script must not meet what it would not have met without us: the arm is given up at the next boundary.
            giver.fail(error)
            return self._own_instead(own, original)
        self._taken += 1
        giver.gave()
        return batch

    def _own_instead(self, own: Any, original: Callable[[Any], Any]) -> Any:
        """One of its own, at the place where the script is in its epoch."""
        self._end_in_time(own)
        stream, left = Stream(own, self.receive), self._epochs.left(own)
        if left is not None and not stream.is_over:
            stream.allow(left)
        return original(own)

    def start(self, loader: Any, original: Callable[[Any], Any]) -> Any:
        """An iterator for the loader. While a change keeps the loader's own one at rest, that one goes on, and the change begins anew."""
        giver = self._giver
        if giver is None or not giver.keeps_own or loader is not self.training.loader:
            self._has_begun |= loader is self.training.loader
            return original(loader)
        if not self._is_free():
            self._own = original(loader)
        self._own._num_yielded = 0
        self._begin_epoch(self._own, giver)
        return self._own

    def restart(self, own: Any, loader: Any, original: Callable[[], None]) -> None:
        """The same, of an iterator with persistent workers, which begins anew itself."""
        giver, is_own = self._giver, own is self._own
        if giver is None or not is_own or not self._can_go_on():
            self._has_begun |= self.training.is_input(own)
            original()
        else:
            own._num_yielded = 0
            own._IterableDataset_len_called = loader._IterableDataset_len_called
        self._epochs.begin(own)
        if giver is not None and is_own:
            self._begin_epoch(own, giver)

    def _begin_epoch(self, own: Any, giver: Giver) -> None:
        self._epochs.begin(own)
        self._has_ended = False
        if giver.error is not None:
            return
        try:
            giver.begin_epoch(self._epochs.left(own))
        except Exception as error:  # the arm is given up at the next boundary
            giver.fail(error)

    def _is_free(self) -> bool:
        """Whether the iterator that was kept can be handed out again: it can go on, and nobody reads it any more."""
        if not self._can_go_on():
            return False
        left = self._epochs.left(self._own)
        return self._has_ended or (left is not None and left <= 0) or is_referred_to_only_by(self, "_own")

    def _can_go_on(self) -> bool:
        own = self._own
        return own is not None and has_indices(own) and not self._epochs.is_over(own) and not Stream(own, self.receive).is_over
