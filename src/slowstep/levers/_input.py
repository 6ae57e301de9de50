"""What all levers of input have in common: they give the training its batches while they are on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slowstep.levers._feed import feed_of
from slowstep.levers._stream import Stream
from slowstep.record.experiment.feeding import Feeder
from slowstep.record.experiment.lever import Change, NotApplicable
from slowstep.record.experiment.training import Training

NO_LOADER = "no torch DataLoader feeds the training"
LOST = "a loader that is read beside another was built anew, and cannot be told from that one"


class InputChange(Change):
    """A change of where batches come from. Raises NotApplicable where no torch DataLoader feeds the training.

    `keeps_own`: while it is on, the loader's own iterator and workers rest through changes of epoch, which are then the change's affair.
    `stream`: an iterator of its own, where it has one. `error`: what went wrong in giving; the arm is given up for it.
    """

    keeps_own = False
    stream: Stream | None
    error: str | None

    def __init__(self, training: Training | Feeder) -> None:
        if training.loader is None:
            raise NotApplicable(NO_LOADER)
        self.feed = feed_of(training)
        self.stream = None
        self.error = None
        together = len(training.feeders) if isinstance(training, Training) else 1
        self._which = {"loader": type(training.loader.dataset).__qualname__, "read_together": together} if together > 1 else {}
        self.feed.join(self)

    def begin(self, left: int | None) -> int:
        """Switched on, with so many batches left in the epoch (None unknown): how many given batches are to pass before it has settled."""
        return 1

    def level(self, left: int | None) -> bool:
        """The others rest: have as many batches lie ready as usually do. Whether one more is to pass before it has settled."""
        return False

    def give(self, left: int | None) -> Any:
        """The next batch. Raises StopIteration where the epoch ends, and whatever goes wrong."""
        raise NotImplementedError

    def gave(self) -> None:
        """A batch of its own was given to the training."""
        self.effect += 1

    def end(self, own: Any) -> None:
        """The epoch ends now."""

    def begin_epoch(self, left: int | None) -> None:
        """Another one begins, of so many batches, while the loader's own iterator rests."""

    def saw(self, own: Any, batch: Any, *, is_last: bool) -> None:
        """The loader itself gave a batch, the last of an epoch or not."""

    def fail(self, error: Exception) -> None:
        """Remember what went wrong in giving."""
        # Torch's frames refer to what they raised, which refers to them: all of them would keep iterators and their workers alive.
        self.error = said(error.with_traceback(None))

    def ready(self) -> bool:
        """Whether enough was seen of the loader as it is."""
        return self.feed.is_known()

    def on(self) -> None:
        """Give the training its batches."""
        self.feed.use(self)

    def off(self) -> None:
        """Have the loader give them again."""
        self.feed.give_up(self)

    def each_step(self) -> None:
        """Raises what went wrong in giving, so that the arm is given up, and NotApplicable where its loader is gone."""
        if self.feed.training.is_lost:
            raise NotApplicable(LOST)
        if self.error is not None:
            raise RuntimeError(self.error)

    def settled(self) -> bool:
        """Whether those who give now do so as they will go on doing, and the others rest."""
        return self.feed.settle()

    def remove(self) -> None:
        """Leave nothing behind."""
        self.feed.leave(self)

    def facts(self) -> Mapping[str, Any]:
        """How many batches lie ready as it is, and how long the receipt of one takes (ns; None where none was seen to lie ready).

        Where it is one of several loaders that feed the training, its data set tells which.
        """
        return {"own_ready": self.feed.seen.usual.level, "receipt_ns": self.feed.seen.receipt_ns, **self._which}


def said(error: Exception) -> str:
    """An error in one line. Torch puts a worker's traceback in front of what it raises again: the last line says it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if len(lines) > 1 else f"{type(error).__name__}: {lines[0] if lines else ''}"
