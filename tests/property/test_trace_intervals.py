from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slowstep.analyses.events.enclosing import Nesting
from slowstep.analyses.events.unions import Union

# Numbers of devices, which a damaged file may say of anything.
KEYS = st.sampled_from([-1, 0, 1, 2**62])
SPANS = st.lists(st.tuples(KEYS, st.integers(0, 40), st.integers(-3, 20)), max_size=15)
ASKED = st.lists(st.tuples(KEYS | st.just(7), st.integers(-10, 60), st.integers(0, 30)), min_size=1, max_size=10)


def _columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 1] + table[:, 2]


@given(SPANS, ASKED)
def test_what_a_union_covers_is_the_number_of_instants_in_any_interval(spans, asked):
    covered = {(key, instant) for key, start, length in spans for instant in range(start, start + length)}
    keys, starts, ends = _columns(asked)

    inside = Union(*_columns(spans)).inside(keys, starts, ends)

    assert inside.tolist() == [sum((key, at) in covered for at in range(a, b)) for key, a, b in zip(keys, starts, ends, strict=True)]


def _nested(draw: st.DrawFn, thread: int, low: int, high: int, depth: int, rows: list[tuple[int, int, int]]) -> None:
    while high - low > 1 and draw(st.booleans()):
        start = draw(st.integers(low, high - 1))
        end = draw(st.integers(start + 1, high))
        rows.append((thread, start, end - start))
        if depth < 4:
            _nested(draw, thread, start, end, depth + 1, rows)
        low = end


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    rows: list[tuple[int, int, int]] = []
    for thread in range(2):
        _nested(draw, thread, 0, 40, 0, rows)
    return draw(st.permutations(rows))


@given(trees(), st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 50)), min_size=1, max_size=10))
def test_the_innermost_stretch_is_the_shortest_of_the_open_ones(rows, asked):
    threads, starts, ends = _columns(rows)
    nesting = Nesting(threads, starts, ends)

    found = nesting.innermost(*(np.array(column) for column in zip(*asked, strict=True)))

    for (thread, at), index in zip(asked, found, strict=True):
        lengths = [length for other, start, length in rows if other == thread and start <= at < start + length]
        assert (index < 0) == (not lengths)
        assert index < 0 or rows[index][2] == min(lengths)


@given(trees())
def test_parents_enclose_and_sums_count_all_that_lies_inside(rows):
    threads, starts, ends = _columns(rows)
    nesting = Nesting(threads, starts, ends)
    sums = nesting.sums(np.ones(len(rows), dtype=np.int64))
    inside = (threads[:, None] == threads) & (starts[:, None] <= starts) & (ends <= ends[:, None])
    # Of two with the same interval one lies in the other: which, is all the same.
    same = (threads[:, None] == threads) & (starts[:, None] == starts) & (ends == ends[:, None])

    for index, parent in enumerate(nesting.parents):
        assert parent < 0 or inside[parent, index]
        if same[index].sum() == 1:
            assert sums[index] == inside[index].sum()
            assert (parent >= 0) == (inside[:, index].sum() > 1)
    assert sum(len(level) for level in nesting.levels()) == len(rows)
