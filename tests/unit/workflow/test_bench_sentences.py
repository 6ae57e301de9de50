"""What the sentence about the whole says of a prediction that misses the training."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.prove.bench.overlap import put_together
from slowstep.prove.stats.figures import Figure
from slowstep.workflow.bench_sentences import whole_sentence


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
    sentence = whole_sentence(put_together(exactly(283), exactly(4000), exactly(real), workers=2))

    assert sentence.startswith("Loading and computing overlap, and loading is the slower. ")
    assert said in sentence


def test_wide_intervals_are_said_in_place_of_a_cause():
    wide = Figure(value=283, draws=np.linspace(50, 500, 100))

    sentence = whole_sentence(put_together(wide, exactly(4000), exactly(200), workers=2))

    assert sentence.endswith("The training reaches 71 % of the prediction, but their intervals overlap: a larger --budget narrows them.")


@pytest.mark.parametrize(
    ("real", "said"), [(None, "except for 50 % of the time"), (250, "except for 25 % of the time"), (800, "except for 50 % of the time")]
)
def test_what_first_batches_take_is_a_share_of_a_training_that_is_slower_than_predicted(real, said):
    # 1 ms of the 2 ms that are predicted, and of 4 ms as it is.
    whole = put_together(exactly(500), exactly(4000), None if real is None else exactly(real), workers=2, starting_ms=1.0)

    assert said in whole_sentence(whole)


def test_without_the_training_itself_nothing_is_compared():
    assert whole_sentence(put_together(exactly(283), exactly(4000), None, workers=0)).endswith("so loading and computing add up.")
