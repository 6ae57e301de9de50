from __future__ import annotations

import numpy as np

from slowstep.analyses.events.enclosing import Nesting

SINCE_1970_NS = 1_700_000_000_000_000_000


def test_one_impossible_time_leaves_the_other_threads_as_they_are():
    threads = np.array([0, *np.repeat(np.arange(12), 2)])
    start = np.array([0, *np.tile([SINCE_1970_NS, SINCE_1970_NS + 10], 12)])
    end = np.array([5, *np.tile([SINCE_1970_NS + 100, SINCE_1970_NS + 50], 12)])

    nesting = Nesting(threads, start, end)

    assert nesting.parents.tolist() == [-1] + [row for n in range(12) for row in (-1, 1 + 2 * n)]
    assert nesting.innermost(np.array([3, 3, 3, 99]), SINCE_1970_NS + np.array([20, 70, 100, 20])).tolist() == [8, 7, -1, -1]
