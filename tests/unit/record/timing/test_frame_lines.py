"""Lines of frames, where the interpreter knows one and where not."""

from __future__ import annotations

import sys
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from slowstep.record.timing.frame_lines import line_of
from slowstep.record.timing.stacks import StackTable


def search(seen: list[int], keys: list[int]) -> None:
    for key in keys:
        if key not in seen:
            seen.append(key)


FIRST = search.__code__.co_firstlineno


def _frame(code: Any, at: int, line: int | None) -> FrameType:
    return cast(FrameType, SimpleNamespace(f_code=code, f_lasti=at, f_lineno=line, f_back=None))


def _code(*lines: tuple[int, int, int | None]) -> Any:
    return SimpleNamespace(co_firstlineno=9, co_lines=lambda: lines)


def _without_line(code: CodeType) -> list[int]:
    return [at for start, end, line in code.co_lines() if line is None for at in range(start, end, 2)]


def test_a_frame_that_knows_its_line_says_it():
    assert line_of(sys._getframe()) == sys._getframe().f_lineno


@pytest.mark.parametrize(("at", "line"), [(0, 9), (2, 10), (8, 10), (10, 12)], ids=["begins", "in a line", "jumps back", "after it"])
def test_a_frame_without_a_line_stands_in_the_nearest_one_before(at, line):
    code = _code((0, 2, None), (2, 8, 10), (8, 10, None), (10, 12, 12))

    assert line_of(_frame(code, at, None)) == line


def test_a_module_that_begins_in_line_0_begins_in_its_first():
    assert line_of(_frame(_code((0, 2, 0), (2, 4, 9)), 0, 0)) == 9


@pytest.mark.skipif(not _without_line(search.__code__), reason="this version of Python gives every jump a line")
def test_the_jump_back_of_a_loop_is_a_line_of_that_loop_in_stacks():
    notes: list[dict[str, Any]] = []
    table = StackTable(notes.append)

    for at in _without_line(search.__code__):
        table.stack_id(table.places(_frame(search.__code__, at, None)))

    assert {note["line"] for note in notes if note["kind"] == "frame"} <= {FIRST + 1, FIRST + 2, FIRST + 3}
