"""Whether compiled code is in play, which must not notice that it is recorded."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from slowstep.record.living import objects

# Guards name what they look at by the number that id() gives: ___check_obj_id(G['helper'].__code__, 140243108763376)
_NUMBER: Final = re.compile(r"[ (](\d{9,})\)")
# By how many frames were compiled so far.
_known: dict[Any, frozenset[int] | None] = {}


def has_compiled() -> bool:
    """Whether torch.compile has been at work in this process, or might have been. (torch.optim alone imports torch._dynamo.)"""
    if "torch._dynamo" not in sys.modules:
        return False
    frames = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", None)
    return frames != 0


def has_graphs() -> bool:
    """Whether a graph of an accelerator was captured, which holds its shapes. Raises TooManyObjects where that cannot be known."""
    torch: Any = sys.modules["torch"]
    if not torch.cuda.is_available():
        return False
    # torch keeps the stream of its first capture by `torch.cuda.graph`; who captures otherwise has the object alone.
    by_torch = getattr(getattr(torch.cuda, "graph", None), "default_capture_stream", None) is not None
    return by_torch or any(issubclass(type(thing), torch.cuda.CUDAGraph) for thing in objects())


def compilations() -> int | None:
    """How often torch.compile has compiled so far, again for other shapes included; None where it does not say."""
    counts = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", None)
    try:
        return 0 if counts is None else sum(list(counts.values()))
    except Exception:  # debugging interfaces of torch, which change between versions: not known is an answer
        return None


def is_compiled(function: Any) -> bool:
    """Whether a function, or its code, is looked at by a guard of a graph; True as well where this version of torch does not tell."""
    numbers = _guarded()
    return numbers is None or not numbers.isdisjoint((id(function), id(getattr(function, "__code__", None))))


def _guarded() -> frozenset[int] | None:
    """Numbers of all objects that guards look at, and of code that was compiled itself; None where they cannot be known."""
    count = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", None)
    if count not in _known:
        _known.clear()
        try:
            _known[count] = frozenset(_look())
        except Exception:  # debugging interfaces of torch, which change between versions: not known is an answer
            _known[count] = None
    return _known[count]


def _look() -> set[int]:
    frames: Any = sys.modules["torch._dynamo.convert_frame"]
    entries = sys.modules["torch"]._C._dynamo.eval_frame._debug_get_cache_entry_list
    numbers: set[int] = set()
    for code in [code for known in frames.input_codes.seen if (code := known()) is not None]:
        numbers.add(id(code))
        for entry in entries(code):
            numbers.update(map(int, _NUMBER.findall(str(entry.guard_manager))))
    return numbers
