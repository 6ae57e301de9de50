from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.forwards import Forwards
from slowstep.analyses.gap_sides import Between, Side, between_updates, nearest_optimizer, side_of
from slowstep.analyses.trainer import Trainer
from slowstep.timeline.timeline import Frame

CRITIC, GENERATOR = 1, 2


def _frame(function: str, line: int, first: int = 1) -> Frame:
    return Frame(file="/home/u/p/train.py", function=function, first_line=first, line=line)


# A loop of two loops: the critic's forwards in line 10 and updates in 12, the generator's in 20 and 22.
def _loop(line: int) -> tuple[Frame, ...]:
    return (_frame("<module>", 90), _frame("train", line))


def _trainer(**changed: Any) -> Trainer:
    ways = {CRITIC: _loop(12), GENERATOR: _loop(22)}
    facts: dict[str, Any] = {
        "is_fed": False,
        "by_hand": False,
        "takes_turns": False,
        "way_to_forward": _loop(10),
        "way_to_update": _loop(12),
        "way_to": ways.__getitem__,
        "optimizer": CRITIC,
        "other_cells": 0,
    }
    return cast(Trainer, SimpleNamespace(**{**facts, **changed}))


def _side(line: int, done: int, following: int, sees_forward: bool = True, **changed: Any) -> Side:
    return side_of((*_loop(line), _frame("called", 61, first=60)), _trainer(**changed), Between(done, following, sees_forward))


@pytest.mark.parametrize(
    ("line", "done", "following", "side"),
    [
        (9, CRITIC, CRITIC, Side.INPUT),
        (13, CRITIC, CRITIC, Side.AFTER),
        (19, GENERATOR, GENERATOR, Side.INPUT),
        (23, GENERATOR, GENERATOR, Side.AFTER),
        (9, GENERATOR, CRITIC, Side.INPUT),
        (23, GENERATOR, CRITIC, Side.AFTER),
        (15, CRITIC, GENERATOR, Side.UNKNOWN),
        (15, GENERATOR, CRITIC, Side.UNKNOWN),
        (12, CRITIC, CRITIC, Side.UNKNOWN),
    ],
)
def test_between_updates_of_one_optimizer_lines_tell_input_from_output(line, done, following, side):
    assert _side(line, done, following) is side


def test_of_optimizers_in_functions_of_their_own_the_inner_one_tells():
    inner, outer = (*_loop(12), _frame("step", 33, first=30)), _loop(22)
    trainer = _trainer(way_to={CRITIC: inner, GENERATOR: outer}.__getitem__)
    making, logging = ((*_loop(12), _frame("step", line, first=30)) for line in (31, 35))

    assert side_of(making, trainer, Between(GENERATOR, CRITIC, True)) is Side.INPUT
    assert side_of(logging, trainer, Between(CRITIC, GENERATOR, True)) is Side.AFTER
    assert nearest_optimizer(making, trainer, Between(GENERATOR, CRITIC, True)) == CRITIC


def test_what_is_above_the_update_is_input_only_where_a_forward_follows():
    assert _side(9, CRITIC, CRITIC, sees_forward=False) is Side.UNSEEN
    assert _side(13, CRITIC, CRITIC, sees_forward=False) is Side.AFTER


def test_without_a_forward_that_was_seen_the_update_s_line_tells():
    assert _side(9, CRITIC, CRITIC, takes_turns=True, way_to_forward=(), sees_forward=False) is Side.UNSEEN
    assert _side(13, CRITIC, CRITIC, takes_turns=True, way_to_forward=(), sees_forward=False) is Side.AFTER


@pytest.mark.parametrize(("line", "side"), [(9, Side.INPUT), (11, Side.AFTER), (13, Side.AFTER)])
def test_of_one_optimizer_the_forward_s_line_tells(line, side):
    assert _side(line, CRITIC, CRITIC, takes_turns=True) is side


def test_what_is_done_for_batches_of_a_loader_comes_after_the_update():
    assert _side(9, CRITIC, CRITIC, is_fed=True) is Side.AFTER


def test_a_stack_of_elsewhere_is_on_no_side():
    assert side_of((_frame("other", 3),), _trainer(), Between(CRITIC, CRITIC, True)) is Side.UNKNOWN


def test_each_gap_lies_between_its_own_updates():
    updates = pl.DataFrame({"optimizer": [CRITIC, CRITIC, GENERATOR], "start_ns": [10, 30, 50], "end_ns": [12, 32, 52]})
    none = np.array([])
    forwards = Forwards(bodies_ns=np.array([25]), apart_start_ns=none, apart_end_ns=none, apart_evaluating=none, apart_plays=none)

    found = between_updates(_trainer(outer_updates=updates), forwards, np.array([0, 12, 32, 52]))

    assert found == [
        Between(CRITIC, CRITIC, False),
        Between(CRITIC, CRITIC, True),
        Between(CRITIC, GENERATOR, False),
        Between(GENERATOR, CRITIC, False),
    ]
