from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.after_update.gap_sides import GapBounds, GapSide, between_updates, nearest_optimizer, side_of
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Frame, RunningCall

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
        "has_optimizers": True,
        "takes_turns": False,
        "way_to_forward": _loop(10),
        "way_to_update": _loop(12),
        "way_to": ways.__getitem__,
        "optimizer": CRITIC,
        "other_cells": 0,
        "starts": pl.DataFrame({"start_ns": [34]}),
    }
    return cast(Trainer, SimpleNamespace(**{**facts, **changed}))


def _side(line: int, done: int, following: int, sees_forward: bool = True, **changed: Any) -> GapSide:
    return side_of((*_loop(line), _frame("called", 61, first=60)), _trainer(**changed), GapBounds(done, following, sees_forward))


@pytest.mark.parametrize(
    ("line", "done", "following", "side"),
    [
        (9, CRITIC, CRITIC, GapSide.INPUT),
        (13, CRITIC, CRITIC, GapSide.AFTER),
        (19, GENERATOR, GENERATOR, GapSide.INPUT),
        (23, GENERATOR, GENERATOR, GapSide.AFTER),
        (9, GENERATOR, CRITIC, GapSide.INPUT),
        (23, GENERATOR, CRITIC, GapSide.AFTER),
        (15, CRITIC, GENERATOR, GapSide.UNKNOWN),
        (15, GENERATOR, CRITIC, GapSide.UNKNOWN),
        (12, CRITIC, CRITIC, GapSide.UNKNOWN),
    ],
)
def test_between_updates_of_one_optimizer_lines_tell_input_from_output(line, done, following, side):
    assert _side(line, done, following) is side


@pytest.mark.parametrize(
    ("line", "columns", "side"), [(13, (4, 10), GapSide.INPUT), (12, (2, 20), GapSide.AFTER)], ids=["in it", "around it"]
)
def test_an_argument_of_the_updating_call_is_input_in_whichever_line_it_stands(line, columns, side):
    def in_call(line: int, column: int, end_line: int, end_column: int) -> tuple[Frame, ...]:
        call = RunningCall(column=column, end_line=end_line, end_column=end_column)
        return (_loop(line)[0], replace(_loop(line)[1], call=call))

    trainer = _trainer(way_to={CRITIC: in_call(12, 4, 14, 5)}.__getitem__)
    path = (*in_call(line, columns[0], max(line, 12 if side is GapSide.INPUT else 15), columns[1]), _frame("called", 61, first=60))

    assert side_of(path, trainer, GapBounds(CRITIC, CRITIC, True)) is side


def test_of_optimizers_in_functions_of_their_own_the_inner_one_tells():
    inner, outer = (*_loop(12), _frame("step", 33, first=30)), _loop(22)
    trainer = _trainer(way_to={CRITIC: inner, GENERATOR: outer}.__getitem__)
    making, logging = ((*_loop(12), _frame("step", line, first=30)) for line in (31, 35))

    assert side_of(making, trainer, GapBounds(GENERATOR, CRITIC, True)) is GapSide.INPUT
    assert side_of(logging, trainer, GapBounds(CRITIC, GENERATOR, True)) is GapSide.AFTER
    assert nearest_optimizer(making, trainer, GapBounds(GENERATOR, CRITIC, True)) == CRITIC


def test_what_is_above_the_update_is_input_only_where_a_forward_follows():
    assert _side(9, CRITIC, CRITIC, sees_forward=False) is GapSide.UNSEEN
    assert _side(13, CRITIC, CRITIC, sees_forward=False) is GapSide.AFTER


def test_without_a_forward_that_was_seen_the_update_s_line_tells():
    assert _side(9, CRITIC, CRITIC, takes_turns=True, way_to_forward=(), sees_forward=False) is GapSide.UNSEEN
    assert _side(13, CRITIC, CRITIC, takes_turns=True, way_to_forward=(), sees_forward=False) is GapSide.AFTER


@pytest.mark.parametrize(("line", "side"), [(9, GapSide.INPUT), (11, GapSide.AFTER), (13, GapSide.AFTER)])
def test_of_one_optimizer_the_forward_s_line_tells(line, side):
    assert _side(line, CRITIC, CRITIC, takes_turns=True) is side


def test_what_is_done_for_batches_of_a_loader_comes_after_the_update():
    assert _side(9, CRITIC, CRITIC, is_fed=True) is GapSide.AFTER


def test_a_stack_of_elsewhere_is_on_no_side():
    assert side_of((_frame("other", 3),), _trainer(), GapBounds(CRITIC, CRITIC, True)) is GapSide.UNKNOWN


def test_each_gap_lies_between_its_own_updates():
    updates = pl.DataFrame({"optimizer": [CRITIC, CRITIC, GENERATOR], "start_ns": [10, 30, 50], "end_ns": [12, 32, 52]})
    none = np.array([])
    forwards = Forwards(bodies_ns=np.array([25]), apart_start_ns=none, apart_end_ns=none, apart_evaluating=none, apart_plays=none)

    found = between_updates(_trainer(outer_updates=updates), forwards, np.array([0, 12, 32, 52]))

    assert found == [
        GapBounds(CRITIC, CRITIC, False),
        GapBounds(CRITIC, CRITIC, True),
        GapBounds(CRITIC, GENERATOR, False, begins_pass=True),
        GapBounds(GENERATOR, CRITIC, False),
    ]
