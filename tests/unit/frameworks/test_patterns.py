"""By which files and events frameworks are known, where those of one are met in the trainings of others."""

from __future__ import annotations

import polars as pl
import pytest

from slowstep.frameworks._events import Event
from slowstep.frameworks._known import code, events
from slowstep.frameworks._words import Code

TENSORFLOW = "/usr/lib/python3.11/site-packages/tensorflow/python"


@pytest.mark.parametrize("which", [Code.TRAINS, Code.COMPUTES, Code.STEPS])
@pytest.mark.parametrize(
    ("file", "is_its"),
    [("eager/polymorphic_function/polymorphic_function.py", True), ("data/ops/iterator_ops.py", False)],
    ids=["a function that is called", "the next element of a tf.data pipeline"],
)
def test_tf_data_feeds_trainings_of_others_and_computes_for_none(which, file, is_its):
    assert bool(code(which).search(f"{TENSORFLOW}/{file}")) is is_its


@pytest.mark.parametrize(
    ("operator", "is_there"),
    [
        ("aten::cudnn_convolution", True),
        ("aten::_cudnn_init_dropout_state", True),
        ("aten::miopen_batch_norm", True),
        ("aten::cudnn_is_acceptable", False),
    ],
)
def test_operators_of_a_device_s_libraries_tell_of_a_device_and_the_question_whether_they_fit_does_not(operator, is_there):
    # As traces are searched: its patterns know less than Python's.
    assert pl.Series([operator]).str.contains(events(Event.ON_DEVICE)).to_list() == [is_there]


@pytest.mark.parametrize("event", Event)
def test_events_are_told_by_patterns_that_tables_can_be_searched_with(event):
    assert pl.Series(["aten::add"]).str.contains(events(event)).len() == 1
