"""The call that made something is found by where it ends, and held against the names of what it made."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from slowstep.prove.patch.call_place import CallPlace, read_call_place
from slowstep.prove.patch.found_call import find_call
from slowstep.prove.patch.source import read_source


def place_of(line: int, end_column: int | None, *names: str, end_line: int | None = None) -> CallPlace:
    return CallPlace(
        made="loader",
        framework="torch",
        file="train.py",
        line=line,
        end_line=None if end_column is None else end_line or line,
        end_column=end_column,
        checksum=0,
        names=names or ("DataLoader",),
    )


def found(text: str, place: CallPlace) -> str | None:
    call = find_call(read_source(text.encode()), place)
    return None if call is None else ast.unparse(call)


@pytest.mark.parametrize(
    ("before", "called"),
    [
        ("", "DataLoader"),
        ("", "torch.utils.data.DataLoader"),
        ("from torch.utils.data import DataLoader as Loader", "Loader"),
        ("Loader = torch.utils.data.DataLoader", "Loader"),
        ("make = functools.partial(DataLoader, num_workers=0)", "make"),
        ("from torch.utils.data import DataLoader as Loader; make = partial(Loader)", "make"),
        ("class DataLoader: pass", "DataLoader"),
        ("if new: from torchdata import DataLoader\nelse: from torch.utils.data import DataLoader", "DataLoader"),
    ],
)
def test_names_are_followed_through_the_file(before: str, called: str) -> None:
    line = f"x = f({called}(a))"

    assert found(f"{before}\n{line}\n", place_of(2 + before.count("\n"), len(line) - 1)) == f"{called}(a)"


@pytest.mark.parametrize(
    ("before", "called"),
    [
        ("", "list(map(DataLoader, [a]))[0].f"),
        ("", "make"),
        ("", "makers[0]"),
        ("make = partial(DataLoader, data)", "make"),
        ("make = DataLoader; make = f", "make"),
        ("def make(a): return DataLoader(a)", "make"),
        ("def f(DataLoader): pass", "DataLoader"),
        ("", "DataLoader.__init__"),
        ("a = b; b = a", "a"),
    ],
)
def test_what_may_be_something_else_is_no_call_of_it(before: str, called: str) -> None:
    line = f"x = f({called}(a))"

    assert found(f"{before}\n{line}\n", place_of(2, len(line) - 1)) is None


def test_of_several_calls_in_a_line_the_column_tells_which() -> None:
    text = "x, y = DataLoader(a), DataLoader(b)\n"

    assert [found(text, place_of(1, column)) for column in (20, 35, None)] == ["DataLoader(a)", "DataLoader(b)", None]
    assert found("x = f(DataLoader(a))", place_of(1, None)) == "DataLoader(a)"


def test_columns_are_in_bytes_and_a_call_may_end_lines_below() -> None:
    text = "'é', (torch.utils\n .data\n .DataLoader(a,\n b))\n"

    assert found(text, place_of(3, 3, end_line=4)) == "torch.utils.data.DataLoader(a, b)"


def test_a_subclass_calls_that_of_its_base() -> None:
    text = "class Mine(DataLoader):\n  def __init__(self, a):\n    super().__init__(a)\n"

    assert found(text, place_of(3, 23, "Mine", "DataLoader")) == "super().__init__(a)"


@pytest.mark.parametrize("fields", [None, {}, {"file": 3}, []])
def test_a_note_that_is_none_of_a_call_is_none(fields: Any) -> None:
    assert read_call_place(fields) is None
