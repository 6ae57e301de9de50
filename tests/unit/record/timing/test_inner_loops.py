from __future__ import annotations

import sys
import textwrap
from types import CodeType

import pytest

from slowstep.record.timing.inner_loops import inner_loops, loop_around, loops_around, loops_beside

TRAINING = """
def train(loader, held_out):
    for batch in loader:
        for sample in batch:
            if not sample:
                continue
            print(sample)
        step(batch)
        while batch:
            for part in batch:
                print(part)
            batch = batch[1:]
        squares = [sample * sample for sample in batch]
        for sample in batch: print(sample)
    for batch in held_out:
        print(batch)
"""
STEP = 8


def code_of(source: str) -> CodeType:
    functions: dict[str, object] = {}
    exec(compile(textwrap.dedent(source), "train.py", "exec"), functions)
    return functions["train"].__code__  # type: ignore[attr-defined]


def test_loops_beside_a_line_are_found_and_those_around_it_are_not():
    assert inner_loops(code_of(TRAINING), STEP) == [[4, 7], [9, 12], [15, 16]]


def test_seen_from_inside_a_loop_it_is_none():
    assert inner_loops(code_of(TRAINING), 7) == [[9, 12], [15, 16]]


@pytest.mark.parametrize(
    "source", ["def train(x):\n    return x\n", "def train(x):\n    for i in x: print(i)\n"], ids=["none", "on one line"]
)
def test_what_has_no_loop_of_several_lines_has_none(source):
    assert inner_loops(code_of(source), 1) == []


WRITING = """
def train(batch, log):
    step(batch)
    with open("history.csv", "w") as file:
        rows = writer(file)
        try:
            for each in log: rows.writerow(each)
        finally:
            file.flush()
    with no_grad():
        look(batch)
        look(log)
    with lock, gzip.open("losses.gz") as file:
        for each in log:
            file.write(each)
        if batch:
            return file
    with open("once.txt") as file: file.write(batch)
"""


def test_blocks_with_an_open_file_are_one_as_loops_are():
    """Their rows hold the GIL, and the file is written and closed in the line that opened it."""
    assert inner_loops(code_of(WRITING), 3) == [[4, 9], [13, 17]]


def test_seen_from_inside_a_block_with_an_open_file_it_is_none():
    assert inner_loops(code_of(WRITING), 5) == [[13, 17]]


def test_waiting_for_a_coroutine_is_no_loop():
    assert inner_loops(code_of("async def train(x):\n    await x(\n        1,\n    )\n"), 1) == []


def test_the_callers_loops_are_found_and_those_of_libraries_left_out():
    found: list[list[object]] = []

    def train() -> None:
        found.extend(loops_beside(sys._getframe()))
        for _ in range(2):
            pass

    train()

    here = train.__code__
    assert found[0] == [here.co_filename, here.co_qualname, here.co_firstlineno, [[here.co_firstlineno + 2, here.co_firstlineno + 3]]]
    assert not [entry for entry in found if "-packages" in str(entry[0])]


@pytest.mark.parametrize(("line", "loop"), [(STEP, [[3, 14]]), (7, [[4, 7]]), (11, [[10, 11]]), (16, [[15, 16]])])
def test_the_innermost_loop_around_a_line_is_found(line, loop):
    assert loop_around(code_of(TRAINING), line) == loop


def test_a_loop_on_one_line_is_around_it_and_a_line_in_no_loop_has_none():
    assert loop_around(code_of("def train(x):\n    for i in x: print(i)\n    print(x)\n"), 2) == [[2, 2]]
    assert loop_around(code_of("def train(x):\n    for i in x: print(i)\n    print(x)\n"), 3) == []


def test_the_loops_around_a_call_are_those_of_each_function_that_it_came_through():
    found: list[list[object]] = []

    def train() -> None:
        found.extend(loops_around(sys._getframe()))

    for _ in range(1):
        train()

    assert found[0][1] == "test_the_loops_around_a_call_are_those_of_each_function_that_it_came_through"


@pytest.mark.parametrize(("lines", "beside", "around"), [(1, 1, 1), (20_000, 0, None)], ids=["a few lines", "thousands of lines"])
def test_of_code_that_takes_long_to_disassemble_no_loop_is_known(lines, beside, around):
    seen = []
    source = "for _ in range(1):\n  x = 1\n" + "x = 1\n" * lines + "for _ in range(1):\n  look()\n"

    def look() -> None:
        frame = sys._getframe(1)
        for found in (loops_beside(frame), loops_around(frame)):
            seen.append(None if found is None else sum(at[0] == "script.py" for at in found))

    exec(compile(source, "script.py", "exec"), {"look": look})

    assert seen == [beside, around]
