"""What built-in functions cost in the making of batches: opens, reads, receives, sleeps, decoders; and who called them.

Timed like the other calls (call_times.py), but in stretches of their own and rarely: with built-in functions a Python loop over pixels
takes twice its time.
"""

from __future__ import annotations

from types import CodeType
from typing import Any, Final

# Of the time of a stretch; the stretches that time Python functions only have 1 % of the whole.
SHARE: Final = 0.0025
EARLY: Final = 2
# Functions with less than this share of their stretches' time are not written down, but for those called at least once per sample.
SMALLEST_SHARE: Final = 0.01
MOST_ROWS: Final = 60
MOST_CALLERS: Final = 2


def builtin_rows(entries: list[Any], samples: int) -> dict[str, Any]:
    """The functions that matter, from the profiler's entries: by time, and what is opened for every sample."""
    callers = _callers(entries)
    whole = sum(entry.inlinetime for entry in entries)
    wanted = [e for e in entries if e.totaltime >= SMALLEST_SHARE * whole or (_opens(e) and e.callcount >= samples > 0)]
    wanted.sort(key=lambda entry: -entry.totaltime)
    return {"kind": "builtins", "samples": samples, "rows": [_row(entry, callers) for entry in wanted[:MOST_ROWS]]}


def _opens(entry: Any) -> bool:
    name = entry.code.co_qualname if isinstance(entry.code, CodeType) else entry.code
    return "open" in name or name.endswith("__init__")


def _row(entry: Any, callers: dict[Any, list[Any]]) -> dict[str, Any]:
    code = entry.code
    is_python = isinstance(code, CodeType)
    mine = sorted(callers.get(code, ()), key=lambda caller: -caller[4])
    return {
        "function": code.co_qualname if is_python else code.strip("<>"),
        "file": code.co_filename if is_python else None,
        "line": code.co_firstlineno if is_python else None,
        "calls": entry.callcount,
        "total_ns": int(entry.totaltime * 1e9),
        "callers": [] if is_python else mine[:MOST_CALLERS],
    }


def _callers(entries: list[Any]) -> dict[Any, list[Any]]:
    """For each built-in function: file, function and first line of each Python function that called it, how often, and for how long."""
    found: dict[Any, list[Any]] = {}
    for entry in entries:
        code = entry.code
        if isinstance(code, CodeType):
            for call in entry.calls or ():
                if not isinstance(call.code, CodeType):
                    row = [code.co_filename, code.co_qualname, code.co_firstlineno, call.callcount, int(call.totaltime * 1e9)]
                    found.setdefault(call.code, []).append(row)
    return found
