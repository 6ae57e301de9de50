from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from slowstep.analyses.python.loop import (
    NOWHERE,
    CallOrder,
    are_lines_comparable,
    called_framework,
    called_from_loop,
    is_before,
    meeting,
    order_of,
)
from slowstep.timeline.timeline import Frame, RunningCall

SITE = "/opt/venv/lib/python3.12/site-packages"


def _frame(function: str, line: int, file: str = "/home/u/p/train.py", first: int = 1) -> Frame:
    return Frame(file=file, function=function, first_line=first, line=line)


def _library(function: str, package: str = "torch") -> Frame:
    return _frame(function, 7, f"{SITE}/{package}/core.py")


SCRIPT = _frame("<module>", 90)
# fit() calls next_batch() in line 20, train_step() in line 21 and on_step_end() in line 22; train_step() forwards in 31 and updates in 33.
UPDATE = (SCRIPT, _frame("fit", 21, first=15), _frame("train_step", 33, first=30))
FORWARD = (*UPDATE[:2], _frame("train_step", 31, first=30))
NEXT_BATCH = (SCRIPT, _frame("fit", 20, first=15), _frame("next_batch", 41, first=40), _frame("decode", 51, first=50))
STEP_END = (SCRIPT, _frame("fit", 22, first=15), _library("call", "progress"), _frame("on_step_end", 61, first=60))
ZERO_GRAD = (*UPDATE[:2], _frame("train_step", 32, first=30), _library("zero_grad"))


@pytest.mark.parametrize(
    ("path", "depth"),
    [(NEXT_BATCH, 1), (STEP_END, 1), (ZERO_GRAD, 2), (UPDATE, 2), ((_frame("elsewhere", 1),), NOWHERE), ((), NOWHERE)],
    ids=["an outer function", "another line of it", "the inner function", "the update itself", "another thread", "nothing"],
)
def test_a_stack_leaves_the_way_to_the_update_where_functions_or_lines_differ(path, depth):
    assert meeting(path, UPDATE) == depth


def test_a_function_that_is_called_twice_by_the_loop_is_left_in_the_loop():
    again = (SCRIPT, _frame("fit", 25, first=15), _frame("train_step", 31, first=30))

    assert meeting(again, UPDATE) == 1


def test_where_only_the_training_function_is_known_its_innermost_call_counts():
    main = _frame("main", 5)
    again = _frame("main", 9)

    assert meeting((SCRIPT, main, _frame("load", 3, first=2), again), (main,)) == 3


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (NEXT_BATCH, "next_batch"),
        (STEP_END, "on_step_end"),
        (ZERO_GRAD, None),
        ((_frame("load", 3), _frame("decode", 4)), "load"),
        ((), None),
    ],
    ids=["called by the loop", "called through a library", "its own line", "not through the loop", "nothing"],
)
def test_a_gap_is_named_by_what_the_loop_had_called(path, name):
    called = called_from_loop(path, UPDATE)

    assert (called[0] if called else None) == name


@pytest.mark.parametrize(("line", "name"), [(23, "23"), (24, "24-27"), (27, "24-27"), (28, "28")], ids=["before", "first", "last", "after"])
def test_lines_of_a_loop_beside_the_update_are_named_together(line, name):
    loops = {("/home/u/p/train.py", "fit", 15): [[17, 19], [24, 27]], ("/home/u/p/other.py", "fit", 15): [[1, 99]]}
    pillow = _library("save", "PIL")

    called = called_from_loop((SCRIPT, _frame("fit", line, first=15), pillow), UPDATE, loops)

    assert called is not None
    assert called.label("/home/u/p/train.py") == f"train.py:{name}"
    assert not called.is_function


COMPREHENSION = _frame("fit.<locals>.<dictcomp>", 23, first=23)
OF_ANOTHER_FILE = _frame("read.<locals>.<genexpr>", 9, "/home/u/p/data.py", first=8)


@pytest.mark.parametrize(
    ("called", "label"),
    [
        ((COMPREHENSION,), "train.py:23"),
        ((COMPREHENSION, _library("norm")), "train.py:23"),
        ((_library("stack"), COMPREHENSION), "train.py:23"),
        ((COMPREHENSION, _frame("norm_of", 71, first=70)), "norm_of (train.py:70)"),
        ((OF_ANOTHER_FILE,), "read (data.py:8)"),
    ],
    ids=["by itself", "around a library's function", "through a library", "around a function of the user's", "of another file"],
)
def test_a_comprehension_is_a_line_of_the_function_around_it(called, label):
    found = called_from_loop((SCRIPT, _frame("fit", 23, first=15), *called), UPDATE)

    assert found is not None
    assert found.label("/home/u/p/train.py") == label


def test_a_function_that_is_called_in_a_loop_beside_the_update_keeps_its_name():
    called = called_from_loop(STEP_END, UPDATE, {("/home/u/p/train.py", "fit", 15): [[22, 24]]})

    assert called is not None
    assert called.label("/home/u/p/train.py") == "on_step_end (train.py:60)"


def test_in_a_loop_of_a_framework_its_own_function_is_named_where_none_of_the_users_is_called():
    way = (SCRIPT, _library("fit", "lightning"), _library("advance", "lightning"))
    logging = (SCRIPT, Frame(file=way[1].file, function="fit", first_line=1, line=9), _library("log_metrics", "lightning"))

    called = called_from_loop(logging, way)

    assert called is not None
    assert called[0] == "log_metrics"


def test_pytorch_called_by_the_loop_itself_is_told_from_what_the_users_functions_call():
    assert called_framework(ZERO_GRAD, UPDATE)
    assert not called_framework((*NEXT_BATCH, _library("stack")), UPDATE)
    assert not called_framework(STEP_END, UPDATE)


@pytest.mark.parametrize(
    ("path", "before"),
    [(NEXT_BATCH, True), (ZERO_GRAD, False), (STEP_END, False), ((*FORWARD, _frame("augment", 71, first=70)), True), ((), False)],
    ids=["a line above", "a line below", "below, in an outer function", "an argument of the forward", "nothing"],
)
def test_what_stands_above_the_forward_in_the_loop_comes_before_it(path, before):
    assert is_before(path, FORWARD) is before


@pytest.mark.parametrize(("update_line", "comparable"), [(20, False), (24, True)], ids=["all in one line", "in lines of their own"])
def test_a_line_that_makes_forward_and_update_tells_no_order(update_line, comparable):
    loop = _frame("fit", 20, first=15)
    forward, update = (SCRIPT, loop, _library("_call_impl")), (SCRIPT, _frame("fit", update_line, first=15))

    assert are_lines_comparable((SCRIPT, loop, _frame("plot", 61, first=60)), forward, update, 0) is comparable


def test_an_argument_of_a_function_that_makes_the_whole_step_comes_before_it():
    called = _frame("train_step", 31, first=30)
    forward, update = (SCRIPT, called, _library("_call_impl")), (SCRIPT, _frame("train_step", 33, first=30))

    assert are_lines_comparable((SCRIPT, _frame("next_batch", 61, first=60)), forward, update, 0)


def _call(text: str, name: str) -> Frame:
    """The frame of a loop in `text` that is in the call of a function of that name, without its own lines' indents."""
    node = next(each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call) and ast.unparse(each.func).endswith(name))
    call = RunningCall(column=node.col_offset, end_line=node.end_lineno, end_column=node.end_col_offset)
    return replace(_frame("fit", node.lineno), call=call)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("batch = load(); step(batch)", CallOrder.BEFORE),
        ("step(load())", CallOrder.BEFORE),
        ("step(\n    state,\n    load(),\n)", CallOrder.BEFORE),
        ("step(state)\nload()", CallOrder.AFTER),
        ("step(batch); batch = load()", CallOrder.AFTER),
        ("load(step(batch))", CallOrder.AFTER),
        ("load(\n    step(\n        batch,\n    ),\n)", CallOrder.AFTER),
        ("step(batch).load()", CallOrder.AFTER),
        ("load().step()", CallOrder.BEFORE),
    ],
)
def test_where_calls_begin_and_end_tells_which_comes_first(text, order):
    load, step = _call(text, "load"), _call(text, "step")

    assert order_of(load, step) is order
    assert are_lines_comparable((SCRIPT, load), (SCRIPT, step), (SCRIPT, step), 0)
    assert is_before((SCRIPT, load), (SCRIPT, step)) is (order is CallOrder.BEFORE)


def test_a_line_within_a_call_is_an_argument_of_it_and_its_first_line_may_be_anything():
    step = _call("step(\n    batch,\n)", "step")

    assert [order_of(_frame("fit", line), step) for line in (1, 2, 3, 4)] == [
        CallOrder.UNKNOWN,
        CallOrder.BEFORE,
        CallOrder.BEFORE,
        CallOrder.AFTER,
    ]
    assert order_of(step, step) is CallOrder.UNKNOWN


def _lightning(function: str, line: int, module: str = "loops/training_epoch_loop.py") -> Frame:
    return _frame(function, line, f"{SITE}/lightning/pytorch/{module}")


CALLED = (_lightning("_call_callback_hooks", 3, "trainer/call.py"), _frame("on_train_batch_end", 61, first=60))
FITTED = (SCRIPT, _lightning("fit", 5, "trainer/trainer.py"), _lightning("advance", 7), _lightning("optimizer_step", 9, "core/module.py"))
AFTER = (*FITTED[:2], _lightning("advance", 8))


@pytest.mark.parametrize(
    ("called", "name", "in_framework"),
    [
        ((), "advance", True),
        ((_lightning("on_batch_end", 3, "trainer/connectors/logger_connector.py"),), "on_batch_end", True),
        ((_frame("__enter__", 3, "/usr/lib/python3.11/contextlib.py"),), "__enter__", True),
        (
            (_lightning("_call_callback_hooks", 3, "trainer/call.py"), _frame("on_train_batch_end", 61, first=60)),
            "on_train_batch_end",
            False,
        ),
    ],
    ids=["its own line", "its own function", "the standard library", "a callback of the user's"],
)
def test_what_a_frameworks_own_loop_does_is_part_of_training_but_the_users_callback_is_not(called, name, in_framework):
    found = called_from_loop((*AFTER, *called), FITTED)

    assert found is not None
    assert found[0] == name
    assert called_framework((*AFTER, *called), FITTED) is in_framework
