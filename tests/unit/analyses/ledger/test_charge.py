"""How many parts a ledger keeps apart."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.events.parts import rows_of
from slowstep.analyses.ledger import charge
from slowstep.analyses.ledger.charge import charged_ledger, in_steps
from slowstep.parts import Part, PartKind

STEPS = 20
# In each step a range that no other step has, of two stages in turns, and one that all have.
OWN = [Part("output" if step % 2 else "store", PartKind.SPAN, f"step {step}") for step in range(STEPS)]
PLOT = Part("output", PartKind.SPAN, "plot")


def charged_of(parts: list[Part]):
    begins = np.arange(STEPS, dtype=np.int64) * 100
    middles = begins + 1 + np.arange(STEPS)
    starts, ends = np.sort(np.concatenate((begins, middles))), np.sort(np.concatenate((middles, begins + 100)))
    labels = np.ravel(np.column_stack((np.arange(STEPS), np.full(STEPS, STEPS))))
    table = rows_of([*parts, PLOT])
    return charged_ledger(in_steps((begins, begins + 100), (starts, ends, labels)), lambda codes: table[codes], STEPS)


def test_few_parts_are_all_kept_apart():
    ledger = charged_of(OWN)

    assert {*ledger.parts} == {*OWN, PLOT}


@pytest.mark.parametrize("most", [1, 2, 8])
def test_of_too_many_parts_those_of_least_time_are_one_of_each_stage(monkeypatch, most):
    monkeypatch.setattr(charge, "MOST_NUMBERS", most * STEPS)

    ledger = charged_of(OWN)

    kept = {PLOT, *OWN[STEPS - most + 1 :]}
    small = {Part(stage, PartKind.SMALL_PARTS) for stage in ("output", "store")}
    assert {*ledger.parts} == kept | small
    assert ledger.ns.sum(axis=0).tolist() == [100] * STEPS
    assert ledger.total("store") == sum(1 + step for step in range(0, STEPS, 2))
