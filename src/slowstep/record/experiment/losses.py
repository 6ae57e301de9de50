"""The loss that is given to backward, and a check sum of the input: one LOSS record an update, only in runs that were asked for it.

Reading a loss waits for the accelerator. That is why it is done in these runs, whose time counts for nothing, and in no others.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.writing.format import ENV_LOSSES, LOSS

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

NO_INPUT: Final = -1
# Of a batch so many numbers of so many tensors are looked at, evenly spread: enough to distinguish two batches.
_NUMBERS: Final = 64
_TENSORS: Final = 4
_DEEPEST: Final = 4
# The kind of the note that none is known, and after how many updates it is written: of so few losses nothing would be said in any case.
UNSEEN: Final = "losses-unseen"
ENOUGH: Final = 10


class LossRecords:
    """Writes them, and says once where a training goes on and none is known: whoever waits for its losses would wait for nothing."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._forget()
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        self._is_any_known = self._is_said = False

    def write(self, loss: float, passes: int, inputs: int = NO_INPUT) -> None:
        """End a step that has this mean loss over so many passes (0: it is not known); `inputs` is the check sum of its batches."""
        self._is_any_known = self._is_any_known or passes > 0
        at_ns = now()
        self._recorder.event(LOSS, at_ns, at_ns, _bits(loss), passes, inputs)

    def look(self, updates: int) -> None:
        """So many updates have ended, and those of their losses were written that are known."""
        if updates < ENOUGH or self._is_any_known or self._is_said:
            return
        self._is_said = True
        self._recorder.ensure_open()
        self._recorder.note({"kind": UNSEEN, "updates": updates, "framework": self._recorder.framework.name})


def asked_losses(recorder: Recorder) -> LossRecords | None:
    """What writes those of this process; None in runs that were not asked for them."""
    return recorder.shared(LossRecords) if os.environ.get(ENV_LOSSES) == "1" else None


class LossSum:
    """Adds up the losses between two updates of the anchor optimizer. A pass over several scalars has their sum for its loss."""

    def __init__(self, recorder: Recorder) -> None:
        self._records = recorder.shared(LossRecords)
        self._training = Training(recorder)
        self._passes_open = 0
        # What a loss scaler multiplied the next losses by, and how many of them.
        self._scale, self._scaled = 1.0, 0
        self._forget()
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        self._sum, self._passes, self._is_known = 0.0, 0, True
        self._input = NO_INPUT

    def scaled(self, outputs: Any, scale: float) -> None:
        """A loss scaler has multiplied these losses."""
        self._scale, self._scaled = scale, len(outputs) if isinstance(outputs, (list, tuple)) else 1

    def enter(self, tensors: Any) -> None:
        """A backward pass begins. One inside another (a checkpointed module's) has no loss of its own."""
        self._passes_open += 1
        if self._passes_open > 1:
            return
        loss = _loss_of(tensors)
        if self._scaled > 0:
            self._scaled -= 1
            loss = None if loss is None else loss / self._scale
        self._passes += 1
        if loss is None:
            self._is_known = False
        else:
            self._sum += loss

    def leave(self) -> None:
        """It has ended."""
        self._passes_open -= 1

    def received(self, batch: Any) -> None:
        """A loader gave a batch, on this thread."""
        if self._training.thread in (0, threading.get_ident()):
            self._input = zlib.crc32(check_sum(batch).to_bytes(4, "little"), max(self._input, 0))

    def updated(self, optimizer: Any) -> None:
        """An optimizer has updated, or its update was skipped."""
        if self._training.updated(optimizer):
            self.write()

    def write(self) -> None:
        """End a step."""
        passes = self._passes if self._is_known else 0
        self._records.write(self._sum / passes if passes else 0.0, passes, self._input)
        self._scaled = 0
        self._forget()


def check_sum(batch: Any) -> int:
    """A check sum of a batch's first tensors; that of nothing where it holds none."""
    found: list[Any] = []
    _collect(batch, found, 0)
    total = 0
    for tensor in found:
        flat = tensor.detach().flatten()
        spread = flat[:: max(flat.numel() // _NUMBERS, 1)][:_NUMBERS]
        total = zlib.crc32(repr((tuple(tensor.shape), spread.tolist())).encode(), total)
    return total


def _collect(batch: Any, found: list[Any], depth: int) -> None:
    if len(found) >= _TENSORS:
        return
    if hasattr(batch, "detach") and hasattr(batch, "flatten"):
        found.append(batch)
    elif depth < _DEEPEST:
        values = getattr(batch, "values", None)
        parts = batch if isinstance(batch, (list, tuple)) else values() if callable(values) else ()
        for part in parts:
            _collect(part, found, depth + 1)


def _loss_of(tensors: Any) -> float | None:
    """The sum of scalars; None where one of them is no scalar."""
    parts = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    if not parts or any(part.numel() != 1 for part in parts):
        return None
    return float(sum(float(part.item()) for part in parts))


def _bits(number: float) -> int:
    return int.from_bytes(struct.pack("<d", number), "little", signed=True)
