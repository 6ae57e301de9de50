"""Of an update whose end alone is told, as JAX' are, what stands beneath its line, or in another network's, is the update too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from slowstep.analyses.after_update.gap_sides import GapBounds
from slowstep.analyses.after_update.gaps import part_of
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Frame

PACKAGES = "/env/lib/python3.11/site-packages"
FIRST, SECOND = 1, 2


def _own(function: str, line: int, first: int = 1) -> Frame:
    return Frame(file="/home/u/p/train.py", function=function, first_line=first, line=line)


def _update(loop_line: int, line: int) -> tuple[Frame, ...]:
    return _own("<module>", loop_line), _own("update", line, first=5)


TREE = Frame(file=f"{PACKAGES}/jax/_src/tree_util.py", function="tree_map", first_line=387, line=399)
JNP = Frame(file=f"{PACKAGES}/jax/_src/numpy/ufunc_api.py", function="ufunc.__call__", first_line=170, line=182)
UNNAMED = _own("update.<locals>.<lambda>", 8, first=8)
PILLOW = Frame(file=f"{PACKAGES}/PIL/Image.py", function="open", first_line=1, line=2)


def _trainer(**changed: Any) -> Trainer:
    ways = {FIRST: _update(43, 8), SECOND: _update(45, 8)}
    facts: dict[str, Any] = {
        "is_fed": False,
        "by_hand": False,
        "has_optimizers": False,
        "takes_turns": True,
        "way_to_forward": (),
        "way_to_update": ways[SECOND],
        "way_to": ways.__getitem__,
        "optimizer": SECOND,
        "other_cells": 0,
        "facts": SimpleNamespace(inner_loops={}, script="/home/u/p/train.py", training_paths=ways, uses_gradients=frozenset()),
        "waits": pl.DataFrame(),
    }
    return cast(Trainer, SimpleNamespace(**{**facts, **changed}))


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ((*_update(45, 8), TREE, UNNAMED, JNP), "compute"),
        ((*_update(45, 7), TREE, UNNAMED, JNP), "compute"),
        ((*_update(43, 7), JNP), "compute"),
        ((*_update(43, 8), TREE, UNNAMED, JNP), "compute"),
        ((_own("<module>", 41), TREE, _own("load", 30, first=29), PILLOW), "preprocess"),
        ((_own("<module>", 41), _own("load", 30, first=29), PILLOW), "preprocess"),
        ((_own("<module>", 47), _own("plot", 30, first=29), JNP), "output"),
    ],
    ids=["its line", "above it", "another's, above it", "another's line", "mapped input", "input", "after it"],
)
def test_a_stack_is_the_update_s_where_it_stands_in_the_framework_beneath_it(path, stage):
    assert part_of(path, _trainer(), GapBounds(SECOND, SECOND, sees_forward=False)).stage == stage


def test_where_calls_of_optimizers_are_told_their_line_is_on_no_side():
    path = (*_update(45, 8), TREE, UNNAMED, JNP)

    assert part_of(path, _trainer(has_optimizers=True), GapBounds(SECOND, SECOND, sees_forward=True)).stage == "unattributed"
