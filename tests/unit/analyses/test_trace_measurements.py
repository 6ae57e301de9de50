"""What one recording says of how batches are made, and of what else uses the cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import COLLECTION, PartKind
from slowstep.sources.recording import SOURCE


def measured(folder: Path, **training: Any) -> Measurements:
    return measure_recording(SOURCE.read(make_recording(folder, Training(**{"steps": 300, **training}))))


@pytest.mark.parametrize("together", [True, False])
def test_workers_that_wait_for_one_limit_are_told_from_those_that_are_slow_by_themselves(tmp_path, together):
    found = measured(tmp_path, workers=2, getitem_ms=4, blocked_ms=60, blocked_together=together).input.facts.fetch_concurrency

    assert found is not None
    assert found.share_a_limit is together
    assert found.slows == pytest.approx(1.0 if together else 0.0, abs=0.15)


@pytest.mark.parametrize(("share", "name"), [(0.8, "mask_tokens"), (0.4, None)])
def test_the_function_that_holds_most_of_the_collate_function_is_known(tmp_path, share, name):
    found = measured(tmp_path, collate_ms=26, collate="data.pad_slowly", collate_inner=share).input.collate_function

    assert (found and found.name) == name


def test_what_the_trainings_other_threads_use_is_the_trees(tmp_path):
    alone, helped = (measured(tmp_path / str(cores), workers=0, helping_cores=cores) for cores in (0.0, 0.9))

    assert alone.machine.load.tree_cores is not None
    assert helped.machine.load.tree_cores == pytest.approx(alone.machine.load.tree_cores + 0.9, abs=0.05)
    assert helped.machine.resources.tree_cores == pytest.approx((alone.machine.resources.tree_cores or 0.0) + 0.9, abs=0.05)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(
    "training", [{"workers": 0, "getitem_ms": 0.2}, {"workers": 2, "persistent": True}], ids=["in collate", "after it"]
)
def test_collections_are_counted_with_who_asked_for_them(tmp_path, training, asked):
    m = measured(tmp_path, **training, collects=(10, 60.0), collects_asked=asked)

    (kind,) = m.python.garbage.kinds
    assert (kind.asked, kind.generation, kind.each_ns) == (asked, 2, pytest.approx(60e6))
    assert m.python.garbage.asked_at == ("train.py:33" if asked else None)
    assert float(m.ledger.of_parts(COLLECTION).sum()) == pytest.approx(kind.total_ns, rel=0.01)


def test_of_batches_that_storage_delays_the_wait_is_reads(tmp_path):
    m = measured(tmp_path, blocked_ms=24, storage=True)

    assert m.ledger.total("read") > m.ledger.total("preprocess", PartKind.SAMPLES)
    assert m.input.demand.blocked_share == pytest.approx(24 / 30.5, rel=0.05)


def test_without_the_work_of_one_of_two_workers_half_of_the_waits_are_unmatched(tmp_path):
    m = measured(tmp_path, workers=2, getitem_ms=50, missing_workers=(0,))

    assert m.input.unmatched_share > 0.05
    assert m.input.demand.wall_ns is not None
