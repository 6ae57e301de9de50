"""Which calls of models a backward pass goes through. Those of an agent that plays, or of a validation, may have gradients on all the same.

Looked at until it is known of each module, by the size of what it is given and its mode: numbers of autograd's nodes that a call has made
are found again below the loss, or are not.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slowstep.frameworks.torch.inside._autograd.graph_size import nodes_below

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# What one pass does not go through, one of the next may: a generator's forward before the critic's turn.
_PASSES: Final = 3
# So many calls that led to nothing tell of the others, of a module that is trained; of one that is not, that it is a teacher's.
_UNUSED: Final = 3
_TEACHER: Final = 10
# Nodes in all: walking them takes some 0.1 s. Beyond, and with more calls open than these, nothing more is asked.
_MOST_NODES: Final = 100_000
_MOST_OPEN: Final = 1000

# A module's id, the samples that it is given, whether it is in its training mode.
ForwardKey = tuple[int, int, bool]


class _Call(NamedTuple):
    """A call of a thread, and the numbers of the nodes that it made: from `first` up to `end`, without it. `pass_number`: passes before."""

    key: ForwardKey
    thread: int
    first: int
    end: int
    pass_number: int


class UsedForwards:
    """Of calls with gradients on. `is_used` is what is known by key; `open` holds calls of which nothing is known yet."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._next_node: Callable[[], int] | None = None
        self.is_used: dict[ForwardKey, bool] = {}
        self.open: list[_Call] = []
        self._forget()
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        self.is_used.clear()
        self.open.clear()
        self._unused: Counter[ForwardKey] = Counter()
        self._trained: set[int] = set()
        self._passes, self._left = 0, _MOST_NODES
        self.asks = self._next_node is not None

    def ask(self, torch: Any) -> None:
        """Calls of models are recorded from now on."""
        # The number of the next node on this thread; not public, and only read.
        self._next_node = getattr(getattr(torch, "autograd", None), "_get_sequence_nr", None)
        self.asks = self._next_node is not None

    def begun(self) -> int:
        """A call begins, of a key that is not known yet; its first node."""
        return 0 if self._next_node is None else self._next_node()

    def ended(self, key: ForwardKey, first: int) -> None:
        """It has come to its end."""
        end = self.begun()
        if len(self.open) >= _MOST_OPEN:
            self._give_up()
        elif self.asks and end > first:
            self.open.append(_Call(key, threading.get_ident(), first, end, self._passes))

    def passes(self, tensors: Any) -> None:
        """A backward pass begins at these tensors, while calls are open. Raises nothing."""
        try:
            self._look(tensors)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            self._give_up()

    def _look(self, tensors: Any) -> None:
        self._passes += 1
        thread = threading.get_ident()
        calls = [call for call in list(self.open) if call.thread == thread]
        if not calls:
            return
        used = self._used(calls, tensors)
        if used is None:
            self._give_up()
            return
        for call in used:
            self.is_used[call.key] = True
            self._trained.add(call.key[0])
        for call in calls:
            if call.key not in self.is_used and self._passes - call.pass_number >= _PASSES:
                self._unused[call.key] += 1
                self.open.remove(call)
                self._decide(call.key)
        self.open[:] = [call for call in self.open if call.key not in self.is_used]

    def _used(self, calls: list[_Call], tensors: Any) -> list[_Call] | None:
        """Those of the calls that made nodes below these tensors; None where that cannot be known, or is too much to look at."""
        if len(calls) == 1 and not self.is_used:
            # The only one so far.
            return calls
        nodes = nodes_below(tensors, self._left)
        if nodes is None:
            return None
        self._left -= len(nodes)
        numbers = sorted(number for number in map(_number_of, nodes) if number is not None)
        # There may be versions of torch whose nodes do not tell theirs.
        return None if nodes and not numbers else [call for call in calls if _holds(numbers, call)]

    def _decide(self, key: ForwardKey) -> None:
        if self._unused[key] >= _UNUSED and key[0] in self._trained:
            self.is_used[key] = False
        elif self._unused[key] >= _TEACHER:
            self.is_used[key] = True

    def _give_up(self) -> None:
        """Of what is not known by now all is taken for the training's."""
        self.asks = False
        self.open.clear()


def _number_of(node: Any) -> int | None:
    number = getattr(node, "_sequence_nr", None)
    return None if number is None else int(number())


def _holds(numbers: list[int], call: _Call) -> bool:
    at = bisect_left(numbers, call.first)
    return at < len(numbers) and numbers[at] < call.end
