from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from slowstep.timeline.intervals import covered_ns, cut, innermost, laid_over, overlap_ns

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12)
CUTS = st.sets(st.integers(0, 80), min_size=2, max_size=6).map(sorted)


def _divided(spans: list[tuple[int, int]], cuts: list[int]) -> tuple[np.ndarray, np.ndarray]:
    starts, ends = (np.array([span[i] for span in spans], dtype=np.int64) for i in (0, 1))
    return innermost(starts, ends, np.array(cuts, dtype=np.int64))


@given(SPANS, CUTS)
def test_the_stretches_cover_the_window_without_gap_or_overlap(spans, cuts):
    edges, owner = _divided(spans, cuts)

    assert edges[0] == cuts[0]
    assert edges[-1] == cuts[-1]
    assert (np.diff(edges) > 0).all()
    assert len(owner) == len(edges) - 1
    assert set(cuts) <= set(edges.tolist())


@given(SPANS, CUTS)
@example([(0, 12), (5, 20)], [10, 30])
def test_each_instant_belongs_to_the_open_span_that_began_last_and_is_shortest(spans, cuts):
    edges, owner = _divided(spans, cuts)

    for begin, end, mine in zip(edges[:-1].tolist(), edges[1:].tolist(), owner.tolist(), strict=True):
        open_spans = [span for span in spans if span[0] <= begin and span[1] >= end]
        if not open_spans:
            assert mine == -1
        else:
            assert spans[mine] == max(open_spans, key=lambda span: (span[0], -span[1]))


@given(SPANS, CUTS, st.randoms(use_true_random=False))
def test_the_division_does_not_depend_on_the_order_of_the_spans(spans, cuts, random):
    edges, owner = _divided(spans, cuts)
    shuffled = random.sample(spans, len(spans))

    other_edges, other_owner = _divided(shuffled, cuts)

    assert other_edges.tolist() == edges.tolist()
    named = [spans[i] if i >= 0 else None for i in owner.tolist()]
    assert [shuffled[i] if i >= 0 else None for i in other_owner.tolist()] == named


@given(SPANS, CUTS, st.lists(st.integers(0, 80), max_size=8, unique=True).map(sorted))
def test_spans_in_which_nothing_lies_may_be_laid_over_a_division(spans, cuts, instants):
    pairs = [(2 * a + 1, 2 * b + 1) for a, b in zip(instants[0::2], instants[1::2], strict=False)]
    edges, owner = _divided([(2 * a, 2 * b) for a, b in spans], [2 * cut for cut in cuts])
    starts, ends = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in (0, 1))

    cut, over = laid_over(edges, owner, starts, ends, len(spans))

    assert (cut[0], cut[-1]) == (edges[0], edges[-1])
    assert (np.diff(cut) > 0).all()
    for begin, end, mine in zip(cut[:-1].tolist(), cut[1:].tolist(), over.tolist(), strict=True):
        inside = [len(spans) + i for i, pair in enumerate(pairs) if pair[0] <= begin and pair[1] >= end]
        under = owner[np.searchsorted(edges, begin, side="right") - 1]
        assert mine == (inside[0] if inside else under)


def test_no_spans_leave_the_whole_window_to_nobody():
    edges, owner = _divided([], [0, 10])

    assert edges.tolist() == [0, 10]
    assert owner.tolist() == [-1]


@given(SPANS, st.lists(st.integers(0, 100), min_size=1, max_size=5))
def test_covered_time_counts_every_instant_once(spans, when):
    taken = sorted({i for begin, end in spans for i in range(begin, end)})
    runs = [i for i in taken if i - 1 not in taken], [i + 1 for i in taken if i + 1 not in taken]
    starts, ends = (np.array(side, dtype=np.int64) for side in runs)

    assert covered_ns(starts, ends, np.array(when)).tolist() == [sum(1 for i in taken if i < t) for t in when]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_overlap_is_symmetric_and_never_negative(a, b, c, d):
    one, other = (np.array([a]), np.array([a + b])), (np.array([c]), np.array([c + d]))

    shared = overlap_ns(*one, *other)

    assert shared == overlap_ns(*other, *one)
    assert shared == len(set(range(a, a + b)) & set(range(c, c + d)))


@given(SPANS, CUTS)
def test_pieces_of_intervals_that_overlap_make_each_of_them_whole_and_hold_no_cut(spans, cuts):
    starts, ends = (np.array([span[i] for span in spans], dtype=np.int64) for i in (0, 1))

    of, begin, end = cut(starts, ends, np.array(cuts, dtype=np.int64))

    for number, (start, stop) in enumerate(spans):
        mine = np.flatnonzero(of == number)
        assert (begin[mine][0], end[mine][-1]) == (start, stop)
        assert begin[mine][1:].tolist() == end[mine][:-1].tolist() == [at for at in cuts if start < at < stop]
