"""Who gives the training its batches in place of its loader: what a feed asks of the change that is on."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks.torch.inside.levers._input.stream import Stream
from slowstep.record.experiment.lever import Change


class Giver(Change):
    """Gives batches while it is on.

    `keeps_own`: while it is on, the loader's own iterator and workers rest through changes of epoch, which are then the change's affair.
    `stream`: an iterator of its own, where it has one. `error`: what went wrong in giving; the arm is given up for it.
    """

    keeps_own = False
    stream: Stream | None
    error: str | None

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
        raise NotImplementedError
