"""How often levers changed something, by their notes."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.prove.stats.effects import FEWEST_CHANGED, blocks_changed, seldom_changed


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
