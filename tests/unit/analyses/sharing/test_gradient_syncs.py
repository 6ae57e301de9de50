from __future__ import annotations

from pathlib import Path

import pytest

from judged import answer_of, code_of, finding
from made_events import Events
from made_measurements import measurements, per_step
from made_recordings import MS
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.sharing.gradient_syncs import GradientSyncs
from slowstep.diagnosis.rule import Judged
from slowstep.parts import Part, PartKind
from slowstep.record.writing.format import SYNC_UNKNOWN, SYNCED, SYNCED_ANEW, UNSYNCED

RULE = "sync-every-backward"
WAITING = Part("gradient_sharing", PartKind.RANK_WAIT)


def _trained(folder: Path, *passes: int, batches: int | None = None, optimizers: int = 1, ranks: int = 2) -> Measurements:
    """Steps with these backward passes, each of 10 ms of which 3 are computed; the first of a step waits a ms for a core besides."""
    events = Events(folder, rank=(0, ranks))
    events.loader()
    begin, batch, asked = 0.0, 0, len(passes) if batches is None else batches
    for k in range(40):
        for place, sync in enumerate(passes):
            if place < asked:
                events.wait(begin, begin + 1, batch)
                batch += 1
            events.backward(begin + 2, begin + 12)
            events.backward_cpu(begin + 2, begin + 12, cpu=3, delay=float(place == 0), sync=sync)
            begin += 12
        events.update(begin, begin + 2, k % optimizers)
        begin += 2
    return measure_recording(events.timeline(), warmup=0)


def test_one_pass_that_shares_waits_for_nothing_that_it_need_not(tmp_path: Path) -> None:
    syncs = _trained(tmp_path, SYNCED).sharing.syncs

    assert syncs is not None
    assert (syncs.backwards, syncs.synced, syncs.early_ns.sum()) == (1, 1, 0)


def test_of_several_passes_that_share_those_before_the_last_need_not(tmp_path: Path) -> None:
    syncs = _trained(tmp_path, SYNCED, SYNCED, SYNCED).sharing.syncs

    assert syncs is not None
    assert (syncs.backwards, syncs.synced) == (3, 3)
    assert syncs.early_ns.mean() / MS == pytest.approx(6 + 7)
    assert syncs.exchange_ns.mean() / MS == pytest.approx(6 + 6)
    assert syncs.queued_ns.mean() / MS == pytest.approx(1)


def test_passes_without_sharing_are_told_apart(tmp_path: Path) -> None:
    syncs = _trained(tmp_path, UNSYNCED, UNSYNCED, SYNCED).sharing.syncs

    assert syncs is not None
    assert (syncs.backwards, syncs.synced, syncs.early_ns.sum()) == (3, 1, 0)


def test_passes_whose_gradients_are_discarded_accumulate_nothing(tmp_path: Path) -> None:
    away, added = (
        _trained(tmp_path / str(at), *passes).sharing.syncs
        for at, passes in enumerate(((SYNCED_ANEW, SYNCED_ANEW), (SYNCED_ANEW, SYNCED_ANEW, SYNCED)))
    )

    assert away is not None
    assert (away.backwards, away.synced, away.early_ns.sum()) == (1, 1, 0)
    assert added is not None
    assert (added.backwards, added.synced) == (2, 2)
    assert added.early_ns.mean() / MS == pytest.approx(7)


@pytest.mark.parametrize(
    ("passes", "more"),
    [((SYNC_UNKNOWN, SYNC_UNKNOWN), {}), ((SYNCED, SYNCED), {"batches": 1}), ((SYNCED, SYNCED), {"optimizers": 2})],
    ids=["several models", "several losses of one forward", "several optimizers"],
)
def test_where_it_is_not_known_which_need_not_nothing_is_said(tmp_path: Path, passes: tuple[int, ...], more: dict[str, int]) -> None:
    m = _trained(tmp_path, *passes, **more)

    assert m.sharing.syncs is None
    assert code_of(RULE, m) == "syncs-not-known"


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
