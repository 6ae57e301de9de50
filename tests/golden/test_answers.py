"""What a golden file keeps of a report: names and numbers, and no words."""

from __future__ import annotations

import pytest

from golden.answers import without_words


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (None, None),
        ("of 2 allowed", "2"),
        ("load, train.py:9", "load, train.py:9"),
        ("in each step", ""),
        ("load > decode > rotate", "load > decode > rotate"),
    ],
)
def test_of_where_something_was_seen_the_names_and_numbers_are_kept(where, kept):
    assert without_words(where) == kept
