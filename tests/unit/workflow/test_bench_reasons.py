"""What is said of the whole where a prediction misses the training, as codes and in words."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.machine.load import Load
from slowstep.prove.bench.overlap import put_together
from slowstep.prove.stats.figures import Figure
from slowstep.reason_words import sentence
from slowstep.workflow.bench_reasons import ADD_UP, BUSY, LOADING_BINDS, WHOLE, WITHIN, of_busy_machine, of_cache, of_whole


def exactly(value: float) -> Figure:
    return Figure(value=value, draws=np.full(100, value))


@pytest.mark.parametrize(
    ("real", "said"),
    [
        (283, "The prediction is within 0 % of the training's speed."),
        (262, "The prediction is within 8 % of the training's speed."),
        (200, "The training reaches 71 % of the prediction: something else takes time"),
        (93, "The training reaches 33 % of the prediction: something else takes time"),
        (400, "The training is 41 % faster than predicted: one half was slower alone than in the training"),
        (849, "The training is 3.0 times as fast as predicted: one half was slower alone"),
    ],
)
def test_how_far_off_the_prediction_is_stands_in_words_that_mean_it(real, said):
    text = sentence(of_whole(put_together(exactly(283), exactly(4000), exactly(real), workers=2)))

    assert text.startswith("Loading and computing overlap, and loading is the slower. ")
    assert said in text


def test_wide_intervals_are_said_in_place_of_a_cause():
    wide = Figure(value=283, draws=np.linspace(50, 500, 100))

    text = sentence(of_whole(put_together(wide, exactly(4000), exactly(200), workers=2)))

    assert text.endswith("The training reaches 71 % of the prediction, but their intervals overlap: a larger --budget narrows them.")


@pytest.mark.parametrize(
    ("real", "said"), [(None, "except for 50 % of the time"), (250, "except for 25 % of the time"), (800, "except for 50 % of the time")]
)
def test_what_first_batches_take_is_a_share_of_a_training_that_is_slower_than_predicted(real, said):
    # 1 ms of the 2 ms that are predicted, and of 4 ms as it is.
    whole = put_together(exactly(500), exactly(4000), None if real is None else exactly(real), workers=2, starting_ms=1.0)

    assert said in sentence(of_whole(whole))


def test_without_the_training_itself_nothing_is_compared():
    found = of_whole(put_together(exactly(283), exactly(4000), None, workers=0))

    assert found == WHOLE(halves=ADD_UP(), starting=None, agreement=None)
    assert sentence(found).endswith("so loading and computing add up.")


def test_what_the_halves_make_and_how_it_agrees_are_told_apart():
    found = of_whole(put_together(exactly(283), exactly(4000), exactly(283), workers=2))

    assert (found.values["halves"], found.values["agreement"].code) == (LOADING_BINDS(), WITHIN.code)


@pytest.mark.parametrize(("cores", "said"), [(1.0, "0.9 of 1 core."), (4.0, "0.9 of 4 cores.")])
def test_a_busy_machine_is_said_with_what_others_used_of_it(cores, said):
    found = of_busy_machine(Load(tree_cores=None, foreign_cores=0.9, stolen_cores=0.0, cores=cores))

    assert (found.code, found.values["used"]) == (BUSY.code, 0.9)
    assert said in sentence(found)


def test_a_cache_that_was_as_it_is_says_nothing():
    assert of_cache(0.5, 0.5, None) == []
    assert [sentence(each)[:40] for each in of_cache(0.9, 0.1, (0.1, 0.8))] == [
        "fewer files were cached when the script ",
        "the page cache changed meanwhile (10 % o",
    ]
