"""Events that are known by their period only."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.gaps import VALIDATION
from slowstep.analyses.ledger import CORE, FORWARD, Ledger
from slowstep.analyses.over_time import _found_events

STEPS = 200


@pytest.mark.parametrize(("part", "known"), [(("output", VALIDATION), True), (("output", "check (train.py:9)"), False)], ids=str)
def test_a_validation_that_stacks_smear_over_all_steps_is_known_by_its_period(part, known):
    length = np.random.default_rng(1).normal(10e6, 1e5, STEPS)
    validating, queued = np.full(STEPS, 1e5), np.zeros(STEPS)
    validating[9::10], queued[9::10] = 40e6, 20e6
    ledger = Ledger(parts=(("compute", FORWARD), part, ("output", CORE)), ns=np.vstack([length, validating, queued]), gap_stacks={})

    (event,) = _found_events(ledger, length + validating)

    assert (event.name, event.known, event.every_steps, event.count) == (part[1], known, 10.0, 20)
    # A validation goes with what it waited for a core; of what nobody knows, only what is longer than elsewhere.
    assert event.each_ns == pytest.approx(60e6 if known else 40e6, rel=0.01)


def test_what_recurs_beside_a_known_event_has_its_own_name():
    length = np.random.default_rng(1).normal(10e6, 1e5, STEPS)
    saving, flushing = np.zeros(STEPS), np.zeros(STEPS)
    saving[9::10], flushing[9::10] = 40e6, 20e6
    parts = (("compute", FORWARD), ("store", "checkpoint by torch.save"), ("output", "flush (train.py:9)"))
    ledger = Ledger(parts=parts, ns=np.vstack([length, saving, flushing]), gap_stacks={})

    (event,) = _found_events(ledger, length + flushing, [parts[1]])

    assert (event.part, event.every_steps) == (parts[2], 10.0)
    assert event.each_ns == pytest.approx(20e6, rel=0.01)
