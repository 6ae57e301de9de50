"""A name that does not exist is answered with those that are spelled like it, everywhere by one measure."""

from __future__ import annotations

from pathlib import Path

import pytest

import slowstep
from slowstep.close_names import close_names

KNOWN = ("workers", "too-few-workers", "worker-restart", "optimizer", "swap", "storage")


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("werkers", ["workers"]),
        ("optimiser", ["optimizer"]),
        ("worker", ["workers", "worker-restart"]),
        # Of these it has half of its letters, in that order.
        ("save", []),
        ("", []),
    ],
)
def test_names_that_share_most_of_their_letters_are_close_and_the_closest_comes_first(name: str, close: list[str]) -> None:
    assert close_names(name, KNOWN, most=3) == close


def test_no_more_are_given_than_asked_for() -> None:
    assert close_names("worker", KNOWN, most=1) == ["workers"]


def test_nobody_searches_by_another_measure() -> None:
    root = Path(slowstep.__file__).parent

    searching = [path.name for path in root.rglob("*.py") if "get_close_matches" in path.read_text(encoding="utf-8")]

    assert searching == ["close_names.py"]
