"""What levers changed and measured, and how often, by their notes."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.prove.stats.effects import FEWEST_CHANGED, NO_WORD, LeverWord, blocks_changed, last_words, seldom_changed


def notes(arm: int, *effects: int) -> list[dict[str, Any]]:
    return [{"arm": arm, "state": "effect", "effect": effect} for effect in effects]


def test_without_notes_nothing_is_said():
    assert blocks_changed([]) == seldom_changed([{"arm": 2, "state": "ready"}]) == {}


@pytest.mark.parametrize(("effects", "blocks"), [((0,), 0), ((0, 0, 0), 0), ((5,), 1), ((0, 3, 3, 4), 2), ((5, 10, 15, 15), 3)], ids=str)
def test_blocks_count_after_which_more_was_changed_than_before(effects, blocks):
    assert blocks_changed(notes(2, *effects)) == {2: blocks}


def test_arms_are_told_apart_and_those_that_change_something_often_are_not_named():
    often = notes(3, *range(1, FEWEST_CHANGED + 1))

    assert seldom_changed([*notes(2, 0, 1), *often]) == {2: 1}


def test_of_each_arm_the_last_word_counts_whatever_else_is_noted_behind_it():
    first, last = ({"arm": 2, "state": "effect", "effect": effect, "facts": {"calls": effect}} for effect in (3, 7))

    words = last_words([first, last, {"arm": 2, "state": "failed"}, {"arm": 3, "state": "ready"}, {"name": "of no arm"}])

    assert words == {2: LeverWord(effect=7, facts={"calls": 7}), 3: NO_WORD}
