from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slowstep.timeline.intervals import containing, flattened, innermost, pieces, union

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=25)


def arrays(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 0] + table[:, 1]


def owners(start: np.ndarray, end: np.ndarray, owner: np.ndarray, spans: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int] | None]:
    """Of each instant from 0 to 99 the span that has it, by its bounds, as equal spans may stand for each other."""
    found: list[tuple[int, int] | None] = [None] * 100
    for first, last, index in zip(start.tolist(), end.tolist(), owner.tolist(), strict=True):
        for instant in range(first, last):
            assert found[instant] is None
            found[instant] = None if index < 0 else (int(spans[0][index]), int(spans[1][index]))
    return found


@given(SPANS)
def test_a_flattened_thread_has_the_innermost_span_at_each_instant(spans: list[tuple[int, int]]) -> None:
    start, end = arrays(spans)
    edges, owner = innermost(start, end, np.array([0, 100], dtype=np.int64))
    assert owners(*flattened(start, end), (start, end)) == owners(edges[:-1], edges[1:], owner, (start, end))


@given(st.recursive(st.integers(1, 3).map(lambda n: [n]), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=20))
def test_nesting_spans_are_flattened_as_brackets(tree: list) -> None:
    spans: list[tuple[int, int]] = []

    def place(node: list, at: int) -> int:
        row = len(spans)
        spans.append((at, 0))
        until = at
        for child in node:
            until = until + child if isinstance(child, int) else place(child, until)
        spans[row] = (at, until - at)
        return until

    place(tree, 0)
    start, end = arrays(spans)
    edges, owner = innermost(start, end, np.array([0, 100], dtype=np.int64))
    assert owners(*flattened(start, end), (start, end)) == owners(edges[:-1], edges[1:], owner, (start, end))


@given(SPANS)
def test_a_union_holds_each_instant_once(spans: list[tuple[int, int]]) -> None:
    start, end = arrays(spans)
    first, last = union(start, end)
    assert all(last[:-1] < first[1:])
    within = {t for a, b in zip(start.tolist(), end.tolist(), strict=True) for t in range(a, b)}
    assert {t for a, b in zip(first.tolist(), last.tolist(), strict=True) for t in range(a, b)} == within
    assert {t for t, i in zip(range(100), containing(first, last, np.arange(100)), strict=True) if i >= 0} == within


@given(SPANS, st.lists(st.integers(0, 99), max_size=10))
def test_pieces_are_all_of_the_intervals(spans: list[tuple[int, int]], cuts: list[int]) -> None:
    first, last = union(*arrays(spans))
    owner, start, end = pieces(first, last, np.array(cuts, dtype=np.int64))
    assert all(end > start)
    assert np.bincount(owner, weights=end - start, minlength=len(first)).tolist() == (last - first).tolist()
    assert not any(a < cut < b for a, b in zip(start, end, strict=True) for cut in cuts)


def test_a_hundred_levels_are_flattened() -> None:
    start, end = np.arange(100), 300 - np.arange(100)
    first, last, owner = flattened(start, end)
    assert owner.tolist() == [*range(100), *range(98, -1, -1)]
    assert last[-1] - first[0] == 300
