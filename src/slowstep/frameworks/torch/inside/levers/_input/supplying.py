"""What all levers of input have in common: they give the training its batches while they are on."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from slowstep.frameworks.torch.inside.levers._input.feed import feed_of
from slowstep.frameworks.torch.inside.levers._input.giver import Giver
from slowstep.frameworks.torch.inside.levers._input.stream import MULTI, SINGLE, torch_class
from slowstep.record.experiment.feeding import Feeder
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.training import Training

NO_LOADER = "no torch DataLoader feeds the training, and other input can only be changed in the script"
OWN_ITERATORS = "{} makes iterators of its own"
LOST = "of two loaders that are read together one was built again, and which one is not known"


class InputChange(Giver):
    """A change of where batches come from. Raises NotApplicable where no torch DataLoader feeds the training, by torch's own iterators."""

    def __init__(self, training: Training | Feeder) -> None:
        if training.loader is None:
            raise NotApplicable(NO_LOADER)
        if not isinstance(training.iterator, (torch_class(SINGLE), torch_class(MULTI), NoneType)):
            # It is asked for batches where nothing is replaced.
            raise NotApplicable(OWN_ITERATORS.format(type(training.loader).__name__))
        self.feed = feed_of(training)
        self.stream = None
        self.error = None
        together = len(training.feeders) if isinstance(training, Training) else 1
        self._which = {"loader": type(training.loader.dataset).__qualname__, "read_together": together} if together > 1 else {}
        self.feed.join(self)

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
