"""Ratios of sums with their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.prove.stats.figures import LEAST_BLOCKS, MOST_BLOCKS, Figure, blocks, combined, inverse, ratio, scaled


def test_a_ratio_of_equal_blocks_is_exact():
    figure = ratio([2.0] * 6, [4.0] * 6)

    assert figure is not None
    assert (figure.value, figure.low, figure.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(("above", "below"), [([], []), ([1.0] * (LEAST_BLOCKS - 1), [1.0] * (LEAST_BLOCKS - 1)), ([1.0] * 9, [0.0] * 9)])
def test_too_few_blocks_have_no_figure(above, below):
    assert ratio(above, below) is None


def test_blocks_with_nothing_below_are_part_of_the_next_one_that_has_some():
    figure = ratio([5e8, 1e8, 6e8, 2e8, 3e8, 1e8, 4e8, 2e8, 1e8], [1, 0, 2, 0, 1, 0, 1, 0, 0])

    same = ratio([5e8, 7e8, 5e8, 8e8], [1, 2, 1, 1])
    assert figure is not None
    assert same is not None
    assert figure.value == same.value == 5e8
    assert (figure.low, figure.high) == (same.low, same.high)


@pytest.mark.parametrize(
    ("above", "below"), [([5e8, 1e8, 6e8, 2e8, 1e8], [1, 0, 2, 0, 0]), ([1e9] * 4, [0, 0, 0, 5]), ([1e9] * 4, [5, 0, 0, 0])]
)
def test_blocks_with_nothing_below_are_none_of_those_that_are_needed(above, below):
    assert ratio(above, below) is None


@pytest.mark.parametrize("count", [6, 12, 40])
def test_intervals_hold_the_truth_about_as_often_as_they_say(count):
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        ns = rng.gamma(20.0, 1.0, count)
        figure = ratio(rng.poisson(50, count), ns)
        assert figure is not None
        held += figure.low <= 50 / 20 <= figure.high

    # 95 % are meant; with 6 blocks some are lost.
    assert 0.90 <= held / 300 <= 0.99


def test_more_blocks_make_it_narrower():
    rng = np.random.default_rng(5)
    few, many = (ratio(rng.poisson(50, count), np.ones(count)) for count in (8, 200))

    assert few is not None
    assert many is not None
    assert many.high - many.low < 0.5 * (few.high - few.low)


def test_figures_are_combined_as_if_independent():
    rng = np.random.default_rng(7)
    one, other = Figure(value=10.0, draws=rng.normal(10, 1, 4000)), Figure(value=10.0, draws=rng.normal(10, 1, 4000))

    added = combined(np.add, one, other)
    assert added.value == 20.0
    assert added.high - added.low == pytest.approx(2 * 1.96 * np.sqrt(2), rel=0.1)
    assert combined(np.maximum, one, scaled(one, 2.0)).value == 20.0


def test_the_inverse_of_a_figure_has_its_ends_turned_round():
    figure = inverse(Figure(value=100.0, draws=np.linspace(50, 200, 1000)), 1000.0)

    assert figure.value == 10.0
    assert 5 < figure.low < 10 < figure.high < 20


def test_rows_are_put_together_until_they_hold_enough_batches():
    rows = np.array([[10, 1, 4, 8]] * 7)

    made = blocks(rows, 2)
    assert made[:, 1].tolist() == [2, 2, 3]
    assert made.sum(axis=0).tolist() == rows.sum(axis=0).tolist()
    assert len(blocks(np.array([[10, 1, 4, 8]] * 1000), 1)) == MOST_BLOCKS
    assert len(blocks(np.zeros((0, 4), dtype=np.int64), 2)) == 0
