"""A ring of real batches, given out in turn in place of the loader's."""

from __future__ import annotations

import statistics
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.batch_copies import changes, copied, handed_out, tensors
from slowstep.frameworks.torch.inside.levers._input.stream import READINGS, Stream
from slowstep.frameworks.torch.inside.levers._input.supplying import InputChange
from slowstep.levers._input.room import MIB, memory_free_bytes
from slowstep.record.experiment.feeding import Feeder
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.timing.batches import bytes_in

# Of the memory that is free a ring takes no more than this share.
MOST_MEMORY: Final = 0.25
# Batches kept beyond those that are given in turn: so many may be changed by a script before it is noticed that it changes them.
SPARE: Final = 2
# Receipts of ready batches that are measured, at most one a block: at the pace of steps, for in a row they take half the time.
RECEIPTS: Final = 12


class Ring(InputChange):
    """Copies of the next batches of the loader; its workers fill their queue meanwhile and rest.

    Where the script changes batches in place, each one that is given out is a fresh copy, and the time that takes is known.
    `across_epochs`: the loader's iterator and workers rest through changes of epoch, too, so that these cost nothing.
    """

    def __init__(self, training: Training | Feeder, size: int, *, across_epochs: bool = False) -> None:
        super().__init__(training)
        self.keeps_own = across_epochs
        self._size = size
        self._kept: list[Any] = []
        self._versions: list[list[int]] = []
        self._lent: list[tuple[weakref.ref[Any], int]] = []
        self._is_pinned = self._is_changed = self._is_measured = False
        self._refusal: str | None = None
        self._gives_ns: deque[int] = deque(maxlen=READINGS)
        self._at = 0
        # What was given last: a script may hold one batch while it asks for the next.
        self._lately: deque[int] = deque(maxlen=SPARE)

    def saw(self, own: Any, batch: Any, *, is_last: bool) -> None:
        """Keep a copy, until there are enough; of those that the script has, see whether it changed them."""
        if len(self._kept) >= self._size + SPARE or self._refusal is not None:
            return
        self._is_changed |= any((lent := reference()) is not None and changes(lent) != before for reference, before in self._lent)
        self._lent = [(weakref.ref(tensor), changes(tensor)) for tensor in tensors(batch)]
        if is_last and (self._kept or own._num_yielded):
            # It may be short, beside full ones of another loader. Of an epoch of one batch there is no other.
            return
        self._is_pinned = bool(own.__dict__.get("_pin_memory"))
        self._refusal = self._too_large(max(bytes_in(batch), 0))
        try:
            if self._refusal is None:
                self._keep(batch)
        except Exception as error:  # batches are the script's own objects: whatever copying them raises is the reason
            self._refusal = f"its batches cannot be copied: {type(error).__name__}: {error}"

    def _too_large(self, size_bytes: int) -> str | None:
        wanted, free = size_bytes * (self._size + SPARE), memory_free_bytes()
        if self._kept or free is None or wanted <= MOST_MEMORY * free:
            return None
        taken = f"{self._size + SPARE} batches take {wanted / MIB:.0f} MiB"
        return f"{taken}, and of {free / MIB:.0f} MiB of free memory a quarter is used at most"

    def _keep(self, batch: Any) -> None:
        kept = copied(batch, pinned=self._is_pinned)
        self._kept.append(kept)
        self._versions.append([changes(tensor) for tensor in tensors(kept)])
        self._is_changed |= -1 in self._versions[-1]

    def ready(self) -> bool:
        """Whether the ring is full. Raises NotApplicable where it would not fit into the memory, or batches cannot be copied."""
        if self._refusal is not None:
            raise NotApplicable(self._refusal)
        return super().ready() and len(self._kept) >= self._size + SPARE

    def begin(self, left: int | None) -> int:
        """Whether in this block a receipt is to be measured: of some, spread over the experiment."""
        self._is_measured = len(self.feed.seen.receipts_ns) >= RECEIPTS
        return super().begin(left)

    def settled(self) -> bool:
        """Whether the loader's workers rest, and a receipt was measured if it was to be."""
        return super().settled() and self._is_measured

    def give(self, left: int | None) -> Any:
        """The next one of the ring; where a receipt is to be measured, once, one that the loader has ready."""
        if not self._is_measured and self.feed.is_settled():
            self._is_measured = True
            if (received := self.feed.receive_ready()) is not None:
                return received
        began_ns = now()
        if not self._is_changed and any(self._is_spoiled(index) for index in self._lately):
            self._is_changed = True
            self._drop_spoiled()
        self._at = (self._at + 1) % min(self._size, len(self._kept))
        self._lately.append(self._at)
        kept = self._kept[self._at]
        batch = copied(kept, pinned=self._is_pinned) if self._is_changed else handed_out(kept)
        self._gives_ns.append(now() - began_ns)
        return batch

    def _is_spoiled(self, index: int) -> bool:
        return [changes(tensor) for tensor in tensors(self._kept[index])] != self._versions[index]

    def _drop_spoiled(self) -> None:
        """What the script has changed is no real batch any more."""
        self._kept = [kept for index, kept in enumerate(self._kept) if not self._is_spoiled(index)]

    def end(self, own: Any) -> None:
        """The loader's own iterator ends as it would have, its workers with it, unless it goes on with the next epoch."""
        if not self.keeps_own:
            Stream(own, self.feed.receive).end()

    def remove(self) -> None:
        """Leave nothing behind, and let the batches go."""
        super().remove()
        self._kept.clear()

    def facts(self) -> Mapping[str, Any]:
        """The batches given in turn, whether each time as copies, and the floor (ns): what a receipt takes beyond what giving took.

        A batch that is ready must still be received: whoever states a gain adds the floor to each step's time.
        """
        known = super().facts()
        give_ns = int(statistics.median(self._gives_ns)) if self._gives_ns else None
        receipt_ns = known["receipt_ns"]
        floor_ns = None if receipt_ns is None or give_ns is None else receipt_ns - give_ns
        return {**known, "batches": min(self._size, len(self._kept)), "copies": self._is_changed, "give_ns": give_ns, "floor_ns": floor_ns}
