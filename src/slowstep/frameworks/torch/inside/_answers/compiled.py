"""Whether compiled code is in play, which must not notice that it is recorded."""

from __future__ import annotations

import sys


def has_compiled() -> bool:
    """Whether torch.compile has been at work in this process, or might have been. (torch.optim alone imports torch._dynamo.)"""
    if "torch._dynamo" not in sys.modules:
        return False
    frames = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", None)
    return frames != 0


def compilations() -> int | None:
    """How often torch.compile has compiled so far, again for other shapes included; None where it does not say."""
    counts = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", None)
    try:
        return 0 if counts is None else sum(list(counts.values()))
    except Exception:  # debugging interfaces of torch, which change between versions: not known is an answer
        return None
