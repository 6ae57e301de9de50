from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowstep.timeline import nesting
from slowstep.timeline.nesting import crossing


def crosses(*stretches: tuple[int, int, int]) -> list[bool]:
    columns = np.array(stretches, dtype=np.int64).reshape(-1, 3).T
    return crossing(columns[0], columns[1], columns[2]).tolist()


def test_nothing_crosses_nothing():
    assert crosses() == []
    assert crosses((0, 1, 5)) == [False]


def test_stretches_that_nest_or_touch_do_not_cross():
    assert crosses((0, 0, 9), (0, 0, 4), (0, 4, 9), (0, 5, 6), (0, 9, 12), (0, 5, 5)) == [False] * 6


def test_both_of_two_that_overlap_cross_and_others_do_not():
    assert crosses((0, 0, 5), (0, 3, 9), (0, 1, 2), (0, 20, 21)) == [True, True, False, False]


def test_threads_are_judged_apart():
    assert crosses((0, 0, 5), (1, 3, 9)) == [False, False]


def test_many_that_cross_are_told_from_few_that_do_not():
    count = 4000
    chain = [(0, at, at + count) for at in range(count)]
    apart = [(0, 3 * count, 3 * count + 5), (1, 0, 9), (0, 3 * count + 1, 3 * count + 2)]

    assert crosses(*chain, *apart) == [True] * count + [False] * 3


@pytest.mark.parametrize("most_looks", [8, -1], ids=["one after the other", "by sets"])
@given(drawn=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 6)), max_size=8))
def test_it_agrees_with_comparing_every_pair(most_looks, drawn):
    stretches = [(thread, start, start + length) for thread, start, length in drawn]
    expected = [any(t == u and s < e and a < b and (s < a < e < b or a < s < b < e) for u, a, b in stretches) for t, s, e in stretches]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_MOST_LOOKS", most_looks)
        assert crosses(*stretches) == expected
