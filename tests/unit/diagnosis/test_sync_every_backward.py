"""Gradients that are shared after each of several backward passes, and what sharing them once gains."""

from __future__ import annotations

import pytest

from judged import answer_of, code_of, finding
from made_measurements import MS, measurements, per_step
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.sharing.gradient_syncs import GradientSyncs
from slowstep.diagnosis.rule import Judged
from slowstep.parts import Part, PartKind

RULE = "sync-every-backward"
WAITING = Part("gradient_sharing", PartKind.RANK_WAIT)


def _sharing(early_ms: float, synced: float = 4, *, seen: bool = True) -> Measurements:
    early, least = per_step(early_ms), per_step(early_ms / 2)
    syncs = GradientSyncs(backwards=4, synced=synced, early_ns=early, exchange_ns=least, queued_ns=per_step(0))
    return measurements(ledger={WAITING: early_ms + 1}, sharing={"ranks": 2, "seen": seen, "syncs": syncs})


def test_what_need_not_be_shared_is_what_its_absence_gains() -> None:
    m = _sharing(10)
    found = finding(RULE, m)

    assert found.gain.predicted == pytest.approx(m.mean_step_ns / (m.mean_step_ns - 10 * MS), rel=0.01)
    assert found.claims == (WAITING,)
    assert not found.fixes[0].changes_numerics


@pytest.mark.parametrize("m", [_sharing(10, 1), _sharing(0.2), measurements()], ids=["once a step", "little", "one rank"])
def test_sharing_once_or_in_no_time_is_clean(m: Measurements) -> None:
    assert answer_of(RULE, m) is None


def test_where_waiting_is_not_measured_it_is_advice() -> None:
    answer = answer_of(RULE, _sharing(0, seen=False))

    assert isinstance(answer, Judged)
    assert answer.finding.advisory


def test_where_it_is_not_known_which_passes_need_not_share_it_is_not_judged() -> None:
    m = measurements(ledger={WAITING: 11.0}, sharing={"ranks": 2, "seen": True, "syncs": None})

    assert code_of(RULE, m) == "syncs-not-known"
