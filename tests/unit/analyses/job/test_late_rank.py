"""Ranks held against each other by the steps of their traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from made_measured_traces import made_measured
from slowstep.analyses.events.parts import COLLECTIVES
from slowstep.analyses.job.late_rank import RankComparison, compare_ranks
from slowstep.analyses.job.rank_steps import RankSteps, traced_steps


def job(*own_ms: Sequence[float], sent_ms: float = 2.0, numbered: bool = True, size: int = 0) -> RankComparison | None:
    """Ranks in step with each other: each waits for the last one of every step, then all send for so long."""
    own = np.array(own_ms, dtype=np.float64)
    shared = own.max(axis=0) - own + sent_ms
    numbers = tuple(range(own.shape[1])) if numbered else None
    return compare_ranks({at: RankSteps(numbers=numbers, own_ns=own[at] * 1e6, shared_ns=shared[at] * 1e6) for at in range(len(own))}, size)


def compared(*own_ms: Sequence[float], sent_ms: float = 2.0, numbered: bool = True) -> RankComparison:
    found = job(*own_ms, sent_ms=sent_ms, numbered=numbered)
    assert found is not None
    return found


def test_a_lone_rank_is_held_against_nobody() -> None:
    assert job([40.0, 40.0]) is None


@pytest.mark.parametrize("numbered", [True, False])
def test_a_fast_rank_waits_for_the_late_one_and_the_late_one_for_nobody(numbered: bool) -> None:
    ranks = compared([36.5] * 4, [58.1] * 4, numbered=numbered)

    assert (ranks.slowest, ranks.fastest, ranks.is_one) == (1, 0, True)
    assert [(s.waits, round(s.waited_ns / 1e6, 1)) for s in ranks.standings.values()] == [(True, 21.6), (False, 0.0)]
    assert ranks.gain_at_most == pytest.approx(60.1 / (60.1 - 21.6))


def test_equal_ranks_are_even_however_much_they_send() -> None:
    ranks = compared([40.0] * 3, [41.0] * 3, [40.5] * 3, sent_ms=30.0)

    assert not ranks.is_uneven
    assert not any(s.waits for s in ranks.standings.values())


def test_one_fast_rank_among_many_makes_no_late_one() -> None:
    ranks = compared([50.0] * 3, *[[58.0] * 3] * 7)

    assert ranks.standings[0].waits
    assert not ranks.is_uneven


def test_ranks_that_share_their_work_unequally_could_divide_it() -> None:
    ranks = compared([10.0] * 3, [58.0] * 3, [58.0] * 3)

    assert ranks.gain_at_most == pytest.approx(60 / (60 - 16))


def test_where_another_rank_is_the_last_in_each_step_none_is_the_late_one() -> None:
    ranks = compared([40.0, 60.0] * 3, [60.0, 40.0] * 3)

    assert (ranks.is_uneven, ranks.is_one) == (True, False)
    assert [(s.waits, s.waited_ns / 1e6) for s in ranks.standings.values()] == [(False, 10.0), (False, 10.0)]
    assert ranks.last_in == 3


def test_trainings_that_do_not_wait_for_each_other_are_even() -> None:
    none = np.zeros(3)
    ranks = compare_ranks({at: RankSteps(numbers=(0, 1, 2), own_ns=none + own, shared_ns=none) for at, own in enumerate((2e7, 6e7))}, 2)

    assert ranks is not None
    assert not ranks.is_uneven
    assert not ranks.standings[0].waits


def test_ranks_are_held_against_each_other_in_the_steps_that_all_have() -> None:
    def rank(numbers: Sequence[int], own_ms: Sequence[float]) -> RankSteps:
        return RankSteps(numbers=tuple(numbers), own_ns=np.array(own_ms) * 1e6, shared_ns=np.full(len(own_ms), 3e6))

    both = compare_ranks({0: rank([5, 6, 7], [900.0, 40.0, 40.0]), 1: rank([6, 7, 8], [41.0, 41.0, 900.0])}, 2)

    assert both is not None
    assert both.steps == 2
    assert [s.own_ns / 1e6 for s in both.standings.values()] == [40.0, 41.0]
    assert compare_ranks({0: rank([5, 6], [40.0, 40.0]), 1: rank([6, 7], [90.0, 90.0])}, 2) is None


def test_ranks_that_left_no_trace_leave_the_job_incomplete() -> None:
    found = job([40.0] * 2, [40.0] * 2, size=128)

    assert found is not None
    assert (found.is_whole, found.size) == (False, 128)


def test_own_work_is_a_step_without_its_exposed_collectives() -> None:
    pace = traced_steps(made_measured(steps=2, step_ms=[100.0, 90.0], ledger={COLLECTIVES: [30.0, 10.0]}))

    assert pace is not None
    assert pace.numbers == (5, 6)
    assert list(pace.own_ns / 1e6) == [70.0, 80.0]
    assert traced_steps(made_measured(is_training=False)) is None


@pytest.mark.parametrize("numbered", [True, False])
def test_one_step_alone_compares_nobody(numbered: bool) -> None:
    assert job([36.5], [58.1], numbered=numbered) is None
