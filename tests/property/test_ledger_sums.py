from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import how_many
from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.document.validity import validate
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE
from slowstep.workflow.diagnose_recordings import diagnose_recording

TRAININGS = st.builds(
    Training,
    steps=st.integers(5, 70),
    workers=st.integers(0, 3),
    epoch_steps=st.sampled_from([None, 1, 2, 7, 20]),
    getitem_ms=st.floats(0.1, 60),
    collate_ms=st.floats(0, 10),
    blocked_ms=st.floats(0, 30),
    other_ms=st.floats(0, 20),
    storage=st.booleans(),
    delay_ms=st.floats(0, 8),
    after_ms=st.sampled_from([0, 0, 3, 20]),
    saves=st.sampled_from([None, (1, 3), (7, 40)]),
    validation=st.sampled_from([None, (9, 30)]),
    persistent=st.booleans(),
    micro_batches=st.integers(1, 3),
    nested=st.booleans(),
    critics=st.integers(0, 2),
    loader=st.sampled_from([True, True, False]),
    input_ms=st.floats(0, 10),
    jitter=st.floats(0, 0.8),
    seed=st.integers(0, 1000),
    missing_workers=st.sampled_from([(), (), (0,), (0, 1, 2)]),
    stack_period_ms=st.sampled_from([5.0, 50.0]),
    drop_training_frame=st.booleans(),
)


def _measured(folder: Path) -> Measurements:
    return measure_recording(SOURCE.read(folder))


@settings(max_examples=how_many(20))
@given(TRAININGS)
def test_the_ledger_of_any_training_sums_to_the_window_exactly(training):
    with tempfile.TemporaryDirectory() as temporary:
        folder = make_recording(Path(temporary), training)
        m, report = _measured(folder), diagnose_recording(folder)

    assert (m.ledger.ns >= -1e-6).all()
    np.testing.assert_allclose(m.ledger.ns.sum(axis=0), m.step_ns, rtol=1e-12, atol=1e-3)
    assert m.ledger.ns.sum() == pytest.approx(float(m.steps.edges_ns[-1] - m.steps.edges_ns[0]), rel=1e-12)
    assert sum(row["share"] for row in report["ledger"]) == pytest.approx(1.0, abs=1e-12)
    validate(report)
    for finding in report["findings"]:
        if finding["gain"]["predicted"] is None:
            continue  # advice
        assert finding["gain"]["low"] <= finding["gain"]["predicted"] <= finding["gain"]["high"]


@settings(max_examples=how_many(10))
@given(TRAININGS, st.integers(0, 1000))
@pytest.mark.slow
def test_the_order_of_records_of_different_kinds_changes_nothing(training, seed):
    with tempfile.TemporaryDirectory() as temporary:
        folder = make_recording(Path(temporary) / "as-written", training)
        shuffled = Path(temporary) / "shuffled"
        shutil.copytree(folder, shuffled)
        for file in shuffled.glob("*.rec"):
            file.write_bytes(_shuffled_kinds(file.read_bytes(), random.Random(seed)))

        assert diagnose_recording(shuffled)["ledger"] == diagnose_recording(folder)["ledger"]


def _shuffled_kinds(raw: bytes, rng: random.Random) -> bytes:
    """Records of one kind stay in their order; which kind follows which is drawn."""
    records = [raw[i : i + fmt.RECORD_BYTES] for i in range(0, len(raw), fmt.RECORD_BYTES)]
    records = [record for record in records if record[-1]]
    kinds = [record[-1] for record in records]
    rng.shuffle(kinds)
    queues = {kind: iter([record for record in records if record[-1] == kind]) for kind in set(kinds)}
    return b"".join(next(queues[kind]) for kind in kinds)
