"""The loss of a single step, kept where somebody asks for it: whether it is a finite number. Never waits for a device."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final

# Of a step that accumulates gradients the last passes are enough: what has spoilt the weights shows in all that follow.
_PASSES: Final = 8

# Whether all of them are finite; None as long as a device has not said.
Answer = Callable[[], bool | None]


class LastLoss:
    """Asked for between two steps, kept in the backward passes of the next one, looked at behind it.

    `starters` are called when a loss is wanted: whoever sees backward passes has to look at them then.
    """

    def __init__(self) -> None:
        self.starters: list[Callable[[], None]] = []
        self.is_wanted = False
        self._kept: deque[Any] = deque(maxlen=_PASSES)

    def want(self) -> None:
        """Keep the loss of the step that begins now."""
        self._kept.clear()
        self.is_wanted = bool(self.starters)
        for start in self.starters:
            start()

    def keep(self, tensors: Any) -> None:
        """A backward pass begins at these tensors, of which scalars are losses."""
        parts = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        # Of a tensor that is spread over processes only all of them together can say something.
        self._kept.extend(part.detach() for part in parts if type(part).__name__ == "Tensor" and part.numel() == 1)

    def take(self) -> Answer | None:
        """The step is over: how to find out whether its loss is finite. None where none was kept, or its device cannot be asked."""
        self.is_wanted = False
        kept = [*self._kept]
        self._kept.clear()
        kinds = {part.device.type for part in kept}
        if kinds == {"cpu"}:
            finite = all(math.isfinite(float(part)) for part in kept)
            return lambda: finite
        return _on_device(kept) if kinds == {"cuda"} else None


def _on_device(kept: list[Any]) -> Answer | None:
    """Have the device say it behind the work that it was given, into memory that is read once it has."""
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_current_stream_capturing() or len({part.device for part in kept}) > 1:
        return None
    with torch.no_grad(), torch.cuda.device(kept[0].device):
        finite = torch.isfinite(torch.stack([part.reshape(()).double() for part in kept])).all()
        said = torch.empty((), dtype=torch.bool, device="cpu", pin_memory=True)
        said.copy_(finite, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
    return lambda: bool(said) if done.query() else None
