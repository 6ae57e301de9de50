from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events
from made_recordings import MS
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.record.writing.format import SYNC_UNKNOWN, SYNCED, SYNCED_ANEW, UNSYNCED


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
def test_where_it_is_not_known_which_need_not_nothing_is_known(tmp_path: Path, passes: tuple[int, ...], more: dict[str, int]) -> None:
    assert _trained(tmp_path, *passes, **more).sharing.syncs is None
