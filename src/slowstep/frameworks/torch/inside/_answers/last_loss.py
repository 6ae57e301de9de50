"""The loss of a single step as torch has it: scalars where a backward pass begins, and whether they are finite. Waits for no device."""

from __future__ import annotations

import math
import sys
from typing import Any

from slowstep.record.device.last_loss import IsFinite


def losses_in(tensors: Any) -> list[Any]:
    """Of the tensors at which a backward pass begins, those that are losses."""
    parts = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    # Of a tensor that is spread over processes only all of them together can say something.
    return [part.detach() for part in parts if type(part).__name__ == "Tensor" and part.numel() == 1]


def are_finite(losses: list[Any]) -> IsFinite | None:
    """How to find out whether all are; None where there is none, or their device cannot be asked."""
    kinds = {loss.device.type for loss in losses}
    if kinds == {"cpu"}:
        finite = all(math.isfinite(float(loss)) for loss in losses)
        return lambda: finite
    return _on_device(losses) if kinds == {"cuda"} else None


def _on_device(losses: list[Any]) -> IsFinite | None:
    """Have the device say it behind the work that it was given, into memory that is read once it has."""
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_current_stream_capturing() or len({loss.device for loss in losses}) > 1:
        return None
    with torch.no_grad(), torch.cuda.device(losses[0].device):
        finite = torch.isfinite(torch.stack([loss.reshape(()).double() for loss in losses])).all()
        said = torch.empty((), dtype=torch.bool, device="cpu", pin_memory=True)
        said.copy_(finite, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
    return lambda: bool(said) if done.query() else None
