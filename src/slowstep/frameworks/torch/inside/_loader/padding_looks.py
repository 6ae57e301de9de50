"""When batches are looked at for padding, and who is told of what was seen."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._loader.padded import look_for_padding
from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Looks, and where none of the first holds sequences no more of them.
MOST_LOOKS: Final = 24
FRUITLESS: Final = 4
# From one look to the next, ever longer: two dozen are spread over four minutes.
FIRST_GAP_NS: Final = 300_000_000
LENGTHENED: Final = 1.25
# A look takes no more than this share of the time before it.
ELAPSED_PER_COST: Final = 500
# Graphs whose shapes are written down: of the passes after a look, for some scripts ask for a batch ahead.
ROUNDS: Final = 3
# Loaders that a step asks one after the other; more iterators are those of short epochs.
MOST_AT_A_TIME: Final = 4
PASSES: Final = 2
NEVER: Final = 1 << 62


class PaddingLooks:
    """A look is taken at `due_ns`, by whoever has received a batch. `passes` counts backward passes whose graph is to be looked at."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Called where passes are wanted.
        self.starters: list[Callable[[], None]] = []
        self._forget()
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        self.due_ns = self.passes = 0
        self._looks = self._fruitful = self._rounds = self._spent_ns = 0
        self._gap_ns = float(FIRST_GAP_NS)
        self._met: set[int] = set()

    def look(self, batch: Any, iterator: int, index: int, at_ns: int) -> None:
        """Look at a batch that this thread has received; one of each iterator at a time, until one comes again.

        Raises what a library raises.
        """
        torch: Any = sys.modules["torch"]
        if not self._recorder.level:
            self.due_ns = NEVER
            return
        # A mode of the script's sees each operation, also ours.
        if torch._C._len_torch_dispatch_stack():
            return
        if iterator in self._met or len(self._met) >= MOST_AT_A_TIME:
            self._end()
            return
        self._met.add(iterator)
        began_ns, self.due_ns = time.thread_time_ns(), NEVER
        with torch._C.DisableTorchFunction():
            arrays = look_for_padding(batch)
        self._recorder.note({"kind": "padded", "at_ns": at_ns, "iterator": iterator, "batch": index, "arrays": arrays})
        spent_ns = time.thread_time_ns() - began_ns
        # Looks are few, however long the training runs.
        self._recorder.once_ns += spent_ns
        self._spent_ns += spent_ns
        self._fruitful += any("lengths" in array for array in arrays)
        self._want_graphs()
        self.due_ns = 0

    def _want_graphs(self) -> None:
        if self._fruitful and self._rounds < ROUNDS:
            self.passes = PASSES
            for start in self.starters:
                start()

    def _end(self) -> None:
        """The next look is due later, or never."""
        self._looks += 1
        self._rounds += self._fruitful > 0
        self.due_ns = NEVER
        if self._looks < MOST_LOOKS and (self._fruitful or self._looks < FRUITLESS):
            self.due_ns = now() + max(int(self._gap_ns), self._spent_ns * ELAPSED_PER_COST)
            self._gap_ns *= LENGTHENED
        self._met.clear()
        self._spent_ns = 0
