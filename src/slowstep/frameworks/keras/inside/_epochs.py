"""The batches of an epoch of Keras' `fit`, several for one call of its train function."""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator
from itertools import islice
from types import FrameType
from typing import Any, Final

from slowstep.record.attributes import held_by
from slowstep.record.timing.tracebacks import hide_own_frames

_FIT: Final = "fit"
# What `fit` has its epochs from, what is left of the running one, and what begins the next.
_EPOCHS: Final = "epoch_iterator"
_RUNNING: Final = "_epoch_iterator"
_BEGIN: Final = "_enumerate_iterator"
_TOGETHER: Final = "steps_per_execution"

Turn = tuple[int, int, Any]  # the numbers of its first batch and its last, and the iterator that they come of


def epochs_of(model: Any) -> Any:
    """What a `fit` of this model on this thread has its epochs from; None where none runs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == _FIT and frame.f_locals.get("self") is model and _EPOCHS in frame.f_locals:
            return frame.f_locals[_EPOCHS]
        frame = frame.f_back
    return None


class GroupedEpochs:
    """The turns of one `fit`, each a call that trains, given out in groups of so many turns while `wanted` says so.

    `turns` is how many the group has that is trained on just now, `own` how many batches a turn has.
    `broken` is the fault of ours after which all goes on turn by turn.
    """

    def __init__(self, epochs: Any, turns: int, wanted: Callable[[], bool]) -> None:
        self._epochs = weakref.ref(epochs)
        self.own = int(held_by(epochs, _TOGETHER) or 1)
        self._most, self._wanted = turns, wanted
        self.turns = 1
        self.broken: Exception | None = None
        # All that may be missing is looked up before anything is changed.
        running, self._of_class = getattr(epochs, _RUNNING), getattr(type(epochs), _BEGIN)
        # Another lever's, which holds its iterator no more than this: a bound method would keep it, and its data, in a circle.
        self._before = vars(epochs).get(_BEGIN)
        self._exchanged = self._begin
        setattr(epochs, _RUNNING, self._grouped(epochs, running))
        setattr(epochs, _BEGIN, self._exchanged)

    def is_of(self, epochs: Any) -> bool:
        """Whether these turns are given out here."""
        return self._epochs() is epochs

    def remove(self) -> None:
        """Put back what there was, unless another lever has put its own around it; the epoch that runs goes on turn by turn."""
        self._wanted = _never
        epochs = self._epochs()
        if epochs is None or vars(epochs).get(_BEGIN) is not self._exchanged:
            return
        if self._before is None:
            delattr(epochs, _BEGIN)
        else:
            setattr(epochs, _BEGIN, self._before)

    def _begin(self) -> Iterator[Turn]:
        epochs = self._epochs()
        return self._grouped(epochs, self._of_class(epochs) if self._before is None else self._before())

    def _grouped(self, epochs: Any, turns: Iterator[Turn]) -> Iterator[Turn]:
        turns = _passed_on(turns)
        for first in turns:
            group = [first, *islice(turns, self._more_turns(epochs, first))]
            self.turns = len(group)
            # Whoever looks at the loop is told how many batches this call takes. A turn alone may be a group of another lever's.
            together = held_by(epochs, _TOGETHER)
            if self.turns > 1:
                setattr(epochs, _TOGETHER, self.own * self.turns)
            try:
                yield first[0], group[-1][1], first[2]
            finally:
                setattr(epochs, _TOGETHER, together)
                # What is called next may be of another `fit`.
                self.turns = 1

    def _more_turns(self, epochs: Any, first: Turn) -> int:
        """How many turns go with this one, which has been taken. Raises nothing."""
        try:
            return self._most_turns(epochs, first[0]) - 1 if self._wanted() else 0
        except Exception as error:  # the border: the lever is given up for it, and nothing raised into the training
            self.broken, self._wanted = error, _never
            return 0

    def _most_turns(self, epochs: Any, begin: int) -> int:
        """How many turns the group may have that begins with this batch, which has been taken.

        At the end of the data it has what is left, and ends by itself. An epoch that ends before its data do goes on turn by turn, for
        what is asked for in one call is trained on.
        """
        length, data = length_of(epochs), held_by(epochs, "_num_batches")
        if not length:
            return 1
        left = length - begin
        of_data = data - (held_by(epochs, "_steps_seen") - self.own) if data else math.inf
        if self._most * self.own <= min(left, of_data):
            return self._most
        return math.ceil(of_data / self.own) if of_data <= left else 1


def length_of(epochs: Any) -> int | None:
    """After how many batches an epoch ends; None where nobody knows yet."""
    length: int | None = held_by(epochs, "steps_per_epoch") or held_by(epochs, "_num_batches")
    return length


def ends_before_data(epochs: Any) -> bool:
    """Whether an epoch ends after a number of batches that was asked for, and the data go on."""
    asked, data = held_by(epochs, "steps_per_epoch"), held_by(epochs, "_num_batches")
    return bool(asked) and not (data and data <= asked)


def _passed_on(turns: Iterator[Turn]) -> Iterator[Turn]:
    try:
        yield from turns
    except GeneratorExit:
        raise
    except BaseException:  # passed on, without our frames in the traceback
        hide_own_frames()
        raise


def _never() -> bool:
    return False
