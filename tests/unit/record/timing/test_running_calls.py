from __future__ import annotations

import sys
from types import CodeType
from typing import Any

import pytest

from slowstep.record.timing.running_calls import LineCalls
from slowstep.record.timing.stacks import StackTable


class _Layer:
    """Keeps where its caller stands while it runs."""

    def __init__(self) -> None:
        self.at: list[tuple[CodeType, int]] = []

    def __call__(self, value: Any) -> Any:
        frame = sys._getframe(1)
        self.at.append((frame.f_code, frame.f_lasti))
        return value

    __matmul__ = __call__


def _function(layer: _Layer) -> Any:
    """Keeps where its caller stands, as a function in Python that is called without one in C between them."""
    frame = sys._getframe(1)
    layer.at.append((frame.f_code, frame.f_lasti))


class _Net:
    def __init__(self) -> None:
        self.wide, self.out = _Layer(), _Layer()
        self.blocks = [_Layer(), _Layer()]

    def nested(self) -> Any:
        return self.out(abs(self.wide(1)))

    def looped(self, value: Any = 1) -> Any:
        for block in self.blocks:
            value = block(value)
        return value

    def comprehended(self) -> Any:
        return [block(1) for block in self.blocks]

    def functional(self) -> Any:
        return _function(self.wide)

    def multiplied(self) -> Any:
        return self.wide @ 2


def _calls(layer: _Layer) -> list[tuple[str | None, bool]]:
    calls = LineCalls()
    found = [calls.at(code, offset) for code, offset in layer.at]
    return [(call.name, call.in_loop) for call in found if call is not None]


def test_calls_of_one_line_are_told_apart_by_name_and_column():
    net = _Net()
    net.nested()
    calls = LineCalls()

    out, wide = (calls.at(*layer.at[0]) for layer in (net.out, net.wide))

    assert out is not None
    assert wide is not None
    assert (out.name, wide.name) == ("self.out", "self.wide")
    assert (out.in_loop, wide.in_loop) == (False, False)
    assert wide.column - out.column == len("self.out(abs(")


@pytest.mark.parametrize("method", ["looped", "comprehended"])
def test_a_call_that_a_loop_makes_again_and_again_is_said_to_be_in_one(method):
    net = _Net()
    getattr(net, method)()

    assert _calls(net.blocks[1]) == [("block", True)]


def test_a_function_in_python_is_a_call_as_one_in_c():
    net = _Net()
    net.functional()

    assert _calls(net.wide) == [("_function", False)]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("self.a(x).b(y)", {"self.a", "b"}),
        ("x.relu().relu()", {"x.relu", "relu"}),
        ("f[i].g(x)", {"g"}),
        ("f[i](x)", {None}),
        ("f(x)(y)", {"f", None}),
        ("self.a.b(f(x))", {"self.a.b", "f"}),
        ("f((), ('x', 'y'), 'z')", {"f"}),
        ("', '.join(x)", {"join"}),
    ],
)
def test_what_is_called_or_taken_out_of_something_has_no_name(written, names):
    code, calls = compile(written, "train.py", "eval"), LineCalls()

    found = {call for offset in range(len(code.co_code)) if (call := calls.at(code, offset)) is not None}

    assert {call.name for call in found} == names
    assert len({call.end_column for call in found}) == len(names)


def test_a_call_after_a_loop_is_in_none():
    code, calls = compile("for x in y:\n  f(x)\ng(y)\n", "train.py", "exec"), LineCalls()

    found = {call for offset in range(len(code.co_code)) if (call := calls.at(code, offset)) is not None}

    assert {(call.name, call.in_loop) for call in found} == {("f", True), ("g", False)}


@pytest.mark.parametrize(("lines", "is_told"), [(100, True), (10_000, False)], ids=["a script", "thousands of lines"])
def test_of_code_that_takes_long_to_disassemble_no_call_is_told(lines, is_told):
    code, calls = compile("f(x)\n" * lines, "train.py", "exec"), LineCalls()

    assert any(calls.at(code, offset) for offset in range(0, 200, 2)) is is_told


def test_an_operator_is_named_by_its_sign():
    net = _Net()
    net.multiplied()

    assert _calls(net.wide) == [("@", False)]


def test_code_of_a_library_is_not_looked_into():
    code = CodeType.replace(_Net.nested.__code__, co_filename="/env/lib/python3.11/site-packages/torch/functional.py")
    offset = LineCalls()
    net = _Net()
    net.nested()

    assert offset.at(code, net.wide.at[0][1]) is None


def test_frames_of_one_line_in_other_calls_are_other_frames_of_a_stack():
    notes: list[dict[str, Any]] = []
    net, table = _Net(), StackTable(notes.append)
    net.nested()
    line = _Net.nested.__code__.co_firstlineno + 1

    numbers = [table.stack_id([(*layer.at[0], line)]) for layer in (net.out, net.wide)]

    assert len(set(numbers)) == 2
    frames = [note for note in notes if note["kind"] == "frame"]
    assert [note["called"] for note in frames] == ["self.out", "self.wide"]
    assert frames[0]["end_column"] - frames[1]["end_column"] == len("))")
    assert [note["end_line"] for note in frames] == [line, line]
