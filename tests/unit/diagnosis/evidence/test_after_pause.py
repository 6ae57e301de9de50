"""The step after a pause of the training thread is longer: how much of that a fix spares, by this recording or by other trainings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judged import finding, judged, values
from made_measurements import MS, changed, every, measurements, per_step
from made_parts import function_part
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import after_pause
from slowstep.diagnosis.evidence.after_pause import LONG_NS, SHORT_NS, STEPS_AT_LEAST, after_pauses
from slowstep.parts import BACKWARD, BODY, OPTIMIZER, Part, PartKind

CALLBACK = function_part("output", "draw", "train.py", 18)
LONGER = "the step after it is longer by"
STEPS, OWN_MS = 400, 19.0
SHORT, LONG, MOST = after_pause.AFTER_SHORT_PAUSE, after_pause.AFTER_LONG_PAUSE, after_pause.AFTER_PAUSE_AT_MOST


def _callback(ms: Any, *, longer_ms: Floats | float = 0.0, own_ms: float = OWN_MS, **changes: Any) -> Measurements:
    """Steps of `own_ms` of work, of which some are longer, with a callback after the update; of a loader that has its batch ready."""
    noise = np.random.default_rng(3).normal(0.0, 0.01 * own_ms, STEPS)
    ledger = {
        Part("preprocess", PartKind.TRANSPORT): 0.1,
        BODY: 0.3 * own_ms + noise + longer_ms,
        BACKWARD: 0.6 * own_ms,
        OPTIMIZER: 0.1 * own_ms,
        CALLBACK: ms,
        **changes.pop("ledger", {}),
    }
    return measurements(steps=STEPS, ledger=ledger, stacks={CALLBACK: 400}, **changes)


def _after(k: int, ms: float) -> Floats:
    """In each step after a k-th one."""
    return np.roll(every(k, ms, STEPS), 1)


def _spared(m: Measurements, **how: Any) -> Any:
    return after_pauses(m, m.ledger.of_parts(CALLBACK), **how)


@pytest.mark.parametrize(("pause_ns", "known"), [(SHORT_NS, SHORT), (LONG_NS, LONG), (4 * LONG_NS, LONG)], ids=["short", "long", "longer"])
def test_after_every_step_it_is_what_other_trainings_took_longer(pause_ns, known):
    spared = _spared(_callback(pause_ns / MS - 0.1))

    assert spared.compared is None
    assert spared.pauses == STEPS
    low, high = known.bounds
    assert [spared.each_ns(ns) for ns in (spared.low, spared.expected, spared.high)] == pytest.approx([low, known.value, high], rel=0.03)


def test_of_a_short_step_it_is_no_more_than_a_share_of_its_work():
    own_ms = 0.5

    spared = _spared(_callback(25.0, own_ms=own_ms))

    assert spared.each_ns(spared.expected) == pytest.approx(MOST.value * own_ms * MS, rel=0.01)
    assert spared.each_ns(spared.high) == pytest.approx(MOST.bounds[1] * own_ms * MS, rel=0.01)


def test_beside_an_accelerator_nothing_is_spared():
    assert _spared(_callback(25.0, device="cuda:0")) is None


def test_beside_a_runtime_that_goes_on_nothing_is_spared():
    m = _callback(25.0)
    notes = {**m.trainer.facts.notes, "facts": {"asynchronous": True}}

    assert _spared(changed(m, trainer=replace(m.trainer, facts=replace(m.trainer.facts, notes=notes)))) is None


def test_a_pause_of_less_than_a_millisecond_counts_for_nothing():
    assert _spared(_callback(0.9)) is None


def test_a_thread_that_stands_still_for_as_long_nevertheless_is_spared_nothing():
    waits = {Part("read", PartKind.BLOCKED): 30.0}

    spared = _spared(_callback(10.0, ledger=waits))

    assert not spared.expected.any()


def test_two_pauses_are_spared_no_more_apart_than_together():
    both = _callback(25.0, ledger={Part("output", PartKind.CALLBACK, "other"): 10.0})

    apart = _spared(both).expected.mean() + after_pauses(both, per_step(10.0, STEPS)).expected.mean()
    together = after_pauses(both, per_step(35.0, STEPS)).expected.mean()

    assert apart <= together


@pytest.mark.parametrize("k", [2, 5])
def test_where_it_is_not_in_every_step_the_steps_after_it_are_compared_with_their_neighbours(k):
    spared = _spared(_callback(every(k, 25.0, STEPS), longer_ms=_after(k, 2.5)))

    assert spared.compared >= STEPS / k - 2
    assert spared.each_ns(spared.expected) == pytest.approx(2.5 * MS, rel=0.05)
    assert 0 < spared.low.sum() < spared.expected.sum() < spared.high.sum()


def test_a_step_ends_with_the_update_where_it_does_not_begin_with_a_request_for_input():
    m = _callback(every(5, 25.0, STEPS), longer_ms=np.asarray(every(5, 2.5, STEPS)), boundary="end of the optimizer call")

    spared = _spared(m)

    assert spared.each_ns(spared.expected) == pytest.approx(2.5 * MS, rel=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_expected_where_they_may_as_well_be_no_longer(seed):
    uneven = np.random.default_rng(seed).normal(0.0, 0.5, STEPS)

    spared = _spared(_callback(every(5, 25.0, STEPS), longer_ms=uneven))

    assert spared.compared is not None
    assert not spared.expected.any()
    assert not spared.low.any()


def test_a_pace_that_drifts_is_in_both():
    spared = _spared(_callback(every(5, 25.0, STEPS), longer_ms=_after(5, 2.0) + np.linspace(0.0, 200.0, STEPS)))

    assert spared.each_ns(spared.expected) == pytest.approx(2.0 * MS, rel=0.1)


@pytest.mark.parametrize("longer_ms", [0.0, 2.5])
def test_steps_that_others_hold_up_hide_nothing_and_feign_nothing(longer_ms):
    held_up = np.random.default_rng(5).exponential(60.0, STEPS) * (np.random.default_rng(6).random(STEPS) < 0.2)

    spared = _spared(_callback(every(5, 25.0, STEPS), longer_ms=_after(5, longer_ms) + held_up))

    assert spared.each_ns(spared.low) <= longer_ms * MS <= spared.each_ns(spared.high)
    assert bool(spared.expected.any()) == (longer_ms > 0)


def test_steps_that_begin_a_pass_over_the_input_are_not_compared():
    # Each fifth step after it is also the first of a pass, which is longer for that.
    begins = _after(5, 3.0)

    spared = _spared(_callback(every(5, 25.0, STEPS), longer_ms=begins, ledger={Part("preprocess", PartKind.LOADER_START): begins}))

    assert spared.compared is None


def test_steps_of_smaller_batches_are_not_compared():
    samples = np.where(_after(5, 1.0) > 0, 8.0, 16.0)

    spared = _spared(_callback(every(5, 25.0, STEPS), longer_ms=_after(5, -5.0), samples=samples))

    assert spared.compared is None


def test_too_few_are_not_compared():
    k = STEPS // (STEPS_AT_LEAST - 2)

    assert _spared(_callback(every(k, 25.0, STEPS), longer_ms=_after(k, 2.5))).compared is None


def test_pauses_in_every_step_are_not_compared_with_those_that_are_just_too_short_to_count():
    lengths = np.random.default_rng(4).uniform(0.8, 1.4, STEPS)

    assert _spared(_callback(lengths)).compared is None


def test_at_most_is_never_less_than_expected():
    # As slow as it can be after 2 ms of another pause, by the most that is assumed of it.
    spared = _spared(_callback(25.0, own_ms=0.5, ledger={Part("output", PartKind.CALLBACK, "other"): 2.0}))

    assert (spared.low <= spared.expected).all()
    assert (spared.expected <= spared.high).all()


def test_of_pauses_of_which_half_fall_away_half_is_spared():
    m = _callback(every(5, 25.0, STEPS), longer_ms=_after(5, 2.5))

    whole, half = _spared(m), _spared(m, share=0.5)

    assert half.expected.sum() == pytest.approx(whole.expected.sum() / 2)
    assert half.each_ns(half.expected) == pytest.approx(whole.each_ns(whole.expected))


def test_of_pauses_that_get_shorter_it_is_the_difference():
    m = _callback(24.9)

    spared = _spared(m, removed_ns=m.ledger.of_parts(CALLBACK) - SHORT_NS + 0.1 * MS)

    assert spared.each_ns(spared.expected) == pytest.approx(LONG.value - SHORT.value, rel=0.02)


def test_the_gain_of_a_callback_has_it_and_its_share_of_the_time_has_not():
    m = _callback(every(2, 30.0, STEPS), longer_ms=_after(2, 4.0))

    found = finding("slow-callback", m)
    step_ms = float(m.step_ns.mean()) / MS
    assert found.share == pytest.approx(15.0 / step_ms, rel=0.01)
    assert found.gain.predicted == pytest.approx(step_ms / (step_ms - 15.0 - 2.0), rel=0.01)
    assert values(found)[LONGER] == pytest.approx(4.0, rel=0.05)
    assert values(found)["fix saves per step"] == pytest.approx(17.0, rel=0.02)


def test_what_is_spared_waited_for_no_core():
    queued = {Part("output", PartKind.CORE_WAIT): 10.0}

    case = judged("slow-callback", _callback(20.0, ledger=queued)).counterfactual.expected

    assert case.delay_share * case.removed_ns.mean() == pytest.approx(10.0 * MS)
    assert case.removed_ns.mean() > 30.5 * MS
