"""Which part of the step grows, on a machine whose pace changes on the way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from how_many import how_many
from made_parts import function_part
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.over_time.even_pace import LARGEST_POWER, WorkPace
from slowstep.analyses.over_time.growth import PartGrowth, _trend, find_growth
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trends import find_trend
from slowstep.parts import Part, PartKind

STEPS = 240
TRIES = how_many(100)
WRITING = function_part("output", "rewrite", "train.py", 3)
FORWARD = Part("compute", PartKind.FORWARD_AND_REST)
BACKWARD = Part("compute", PartKind.BACKWARD)
STEADY = np.full(STEPS, 20e6)
GROWING = np.linspace(10e6, 40e6, STEPS)


def growth_of(writing: Floats, forward: Floats, pace: Floats) -> PartGrowth | None:
    noise = np.random.default_rng(3).normal(1, 0.03, (3, STEPS))
    parts = (WRITING, FORWARD, BACKWARD)
    ledger = Ledger(parts=parts, ns=np.vstack([writing, forward, 2 * forward]) * noise * pace, gap_stacks={}, timed={})
    none = np.zeros(0, np.int64)
    no_stacks = Stacks(
        time_ns=none, weight_ns=np.zeros(0), stack=none, frames={}, blocked=np.zeros(0, np.bool_), device_idle=np.zeros(0, np.int8)
    )
    edges = np.arange(STEPS + 1) * 1_000_000
    steps: Any = SimpleNamespace(edges_ns=edges, count=STEPS)
    trainer: Any = SimpleNamespace(update_end_ns=edges[1:], way_to_update=())
    return find_growth(ledger, steps, no_stacks, trainer, [], None)


def slower_from(begin: float, end: float, times: float) -> Floats:
    at = np.linspace(0, 1, STEPS)
    return np.where((at >= begin) & (at < end), times, 1.0)


EVER_SLOWER = np.linspace(1.0, 1.6, STEPS)
PACES = [np.ones(STEPS), slower_from(0.3, 0.6, 1.5), slower_from(0.0, 0.5, 1.5), slower_from(0.0, 0.2, 2.0), EVER_SLOWER, EVER_SLOWER[::-1]]


@pytest.mark.parametrize("pace", PACES)
def test_growth_is_seen_whatever_the_pace_of_the_machine(pace):
    found = growth_of(GROWING, STEADY, pace)

    assert found is not None
    assert found.part == WRITING
    assert found.trend.growth_low > 5e6


def paces(rng: np.random.Generator) -> Floats:
    """Two paces of a machine, 1.4 apart, each for a while."""
    slow = np.zeros(STEPS)
    at, now = 0, rng.random() < 0.5
    while at < STEPS:
        until = at + max(int(rng.exponential(0.2 * STEPS)), 1)
        slow[at:until], now, at = now, not now, until
    return 1.4**slow


@pytest.mark.parametrize("power", [0.5, 2.0, *(pytest.param(power, marks=pytest.mark.nightly) for power in (1.0, 1.5))])
def test_a_pace_that_changes_one_part_more_than_the_training_hides_no_growth_and_is_none(power):
    rng = np.random.default_rng(5)
    seen = alarms = 0
    for _ in range(TRIES):
        pace = paces(rng)
        grows, stays = (growth_of(part * pace ** (power - 1), STEADY, pace) for part in (GROWING, STEADY))
        seen += grows is not None and grows.part == WRITING
        alarms += stays is not None and stays.part == WRITING and stays.trend.growth_low > 2e6

    assert seen >= 0.95 * TRIES
    assert alarms <= 0.02 * TRIES


def test_an_even_pace_makes_nothing_less_certain():
    """Growth far beyond a machine's jumps is certain in the time itself, whatever the work beside it does."""
    rng = np.random.default_rng(5)
    for _ in range(TRIES):
        work = WorkPace(paces(rng) * rng.normal(1, 0.2, STEPS).clip(0.3), slows=False)
        ns = GROWING * rng.normal(1, 0.2, STEPS).clip(0.3)
        plain, found = find_trend(ns), _trend(ns, work)
        assert plain is not None
        assert found is not None
        assert found.growth_low >= plain.growth_low
        assert found.growth_likely >= plain.growth_likely


@pytest.mark.parametrize("pace", [np.ones(STEPS), slower_from(0.3, 0.6, 1.5), slower_from(0.5, 1.0, 1.5), np.linspace(1.0, 1.04, STEPS)])
def test_a_machine_that_becomes_slower_is_no_growth(pace):
    found = growth_of(STEADY, STEADY, pace)

    assert found is None or found.trend.growth_low < 2e6


def test_what_takes_longer_only_as_the_own_work_does_is_no_growth():
    found = growth_of(2 * STEADY, STEADY, EVER_SLOWER)

    # That work itself has nothing beside it to be held against.
    assert found is None or found.part.stage == "compute"


def test_a_part_that_stays_while_the_work_shrinks_does_not_grow():
    found = growth_of(STEADY, GROWING[::-1], np.ones(STEPS))

    assert found is None or found.trend.growth_low < 1e6


def test_forward_and_backward_may_grow_together():
    found = growth_of(STEADY, GROWING, np.ones(STEPS))

    assert found is not None
    assert found.part == BACKWARD
    assert found.trend.growth_low > 10e6


def test_a_part_that_takes_as_long_as_work_whose_pace_is_noise_changes_by_no_high_power_of_it():
    # What is left of the part beside the work is next to nothing, and so is what explains it: their quotient was a power of millions.
    steps = np.arange(STEPS)
    wave = np.sin(steps / STEPS * 12)
    work = WorkPace(1e6 * np.exp(np.where(steps % 2, -0.5, 0.5) * wave), slows=False)
    part = work.work_ns * np.exp(1e-9 * wave * np.where(steps < STEPS / 2, 1, 0.2))

    with np.errstate(all="raise"):
        evened = work.evened(part)

    assert np.isfinite(evened).all()
    assert work.power_of(part) <= LARGEST_POWER
