"""Which calls are made where one in k is."""

from __future__ import annotations

from collections import Counter

import pytest

from slowstep.levers._calls.turns import CallTurns, DrawnTurns


def made(turns: CallTurns, calls: int) -> int:
    return sum(not turns.is_left_out() for _ in range(calls))


@pytest.mark.parametrize("every", [2, 3, 5, 10, 100])
def test_of_any_number_of_calls_the_share_is_right_to_half_a_call(every: int) -> None:
    for calls in range(3 * every):
        assert abs(made(CallTurns(every), calls) - calls / every) <= 0.5


def test_without_every_none_is_made() -> None:
    assert made(CallTurns(1), 100) == made(DrawnTurns(1), 100) == 0


@pytest.mark.parametrize("every", [2, 3, 5])
def test_turns_go_on_over_blocks_and_leave_out_the_calls_in_which_the_training_settles(every: int) -> None:
    turns, counted = CallTurns(every), 0

    for _ in range(6):
        turns.begin_block()
        made(turns, 3)
        turns.begin_counting()
        counted += made(turns, 5)

    assert counted == 30 // every


def test_drawn_turns_make_every_call_of_a_block_as_often() -> None:
    turns, often = DrawnTurns(3), Counter[int]()

    for _ in range(3000):
        turns.begin_block()
        often.update(call for call in range(7) if not turns.is_left_out())

    assert set(often) == set(range(7))
    assert all(count == pytest.approx(1000, rel=0.15) for count in often.values())
