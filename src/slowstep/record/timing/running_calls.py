"""Which call of its line a frame is in, by bytecode.

A stack then tells one layer from another that is called in the same line, and whether a loop goes over several there. The source may have
changed since, or there is none. Of code of the user's alone: of a library's it is the function that counts.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any, Final, NamedTuple

from slowstep.record.timing.inner_loops import is_too_large, jumps_back
from slowstep.record.timing.line_counts import is_users

_CALL: Final = "CALL"
_LOAD: Final = "LOAD_"
_CONSTANT: Final = "LOAD_CONST"
_OPERATOR: Final = "BINARY_OP"
# What is called, or taken out of something, has no name that is written there.
_ENDS_NAME: Final = ("CALL", "BINARY_")
_INSTRUCTION: Final = 2


class LineCall(NamedTuple):
    """A call or an operation: its column in the line (bytes of UTF-8, from 0), the line and column of its end, the dotted name of what is
    called or the operator's sign (None where it is neither), and whether a loop of the function holds it.
    """

    column: int
    end_line: int | None
    end_column: int
    name: str | None
    in_loop: bool

    def note(self) -> dict[str, Any]:
        """As the description of a frame has it."""
        return {
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "called": self.name,
            "in_loop": self.in_loop,
        }


class LineCalls:
    """Those of code objects, each of which is disassembled once. Whoever asks keeps the code alive."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, LineCall]] = {}

    def at(self, code: CodeType, offset: int) -> LineCall | None:
        """The call at an offset of the user's code; None at anything else, and in a library's."""
        if not is_users(code.co_filename):
            return None
        known = self._known.get(id(code))
        if known is None:
            known = self._known[id(code)] = _calls_of(code)
        return known.get(offset)


def _calls_of(code: CodeType) -> dict[int, LineCall]:
    if is_too_large(code):
        return {}
    steps = list(dis.get_instructions(code))
    loops, loop_end = jumps_back(steps), -1
    found: dict[int, LineCall] = {}
    names: dict[tuple[int | None, int | None], str] = {}
    for step, ends in zip(steps, [*(step.offset for step in steps[1:]), len(code.co_code)], strict=True):
        loop_end = max(loop_end, loops.get(step.offset, -1))
        place = step.positions
        if place is None or place.col_offset is None or place.end_col_offset is None:
            continue
        begin = place.lineno, place.col_offset
        if step.opname.startswith(_LOAD) and not step.opname.startswith(_CONSTANT):
            _name(names, begin, step)
        elif _CALL in step.opname or step.opname == _OPERATOR:
            name = step.argrepr if step.opname == _OPERATOR else names.get(begin)
            call = LineCall(place.col_offset, place.end_lineno, place.end_col_offset, name, step.offset <= loop_end)
            # A frame that has called a function in Python stands behind what the interpreter caches of the call.
            found.update(dict.fromkeys(range(step.offset, ends, _INSTRUCTION), call))
        if step.opname.startswith(_ENDS_NAME):
            names.pop(begin, None)
    return found


def _name(names: dict[tuple[int | None, int | None], str], begin: tuple[int | None, int | None], step: dis.Instruction) -> None:
    """A name, or an attribute of what begins in the same place. Of two that Python loads at once the first begins there."""
    name = step.argval[0] if isinstance(step.argval, tuple) else step.argval
    if isinstance(name, str):
        is_first = not step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD"))
        names[begin] = name if is_first or begin not in names else f"{names[begin]}.{name}"
