"""Whole recordings, drawn: of few stacks or none, of few steps, without lengths, all steps alike, all of them in one part."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from how_many import how_many
from made_recordings import Training, make_recording
from slowstep.document.validity import faults
from slowstep.errors import NothingRecorded
from slowstep.record.writing import format as fmt
from slowstep.workflow.diagnose_recordings import diagnose_recording

# Of fewer steps there may be no report, where it is said why.
ENOUGH_STEPS = 10
lengths = st.sampled_from([0.0, 0.001, 1.0, 40.0])
rarely = st.sampled_from([None, None, (1, 3.0), (7, 50.0), (1, 0.0)])

WORK = ("fixed_ms", "per_sample_ms", "optimizer_ms", "getitem_ms", "collate_ms", "after_ms", "input_ms")
# Everything in one instant.
INSTANT = {"epoch_steps": None, "loader": True} | dict.fromkeys((*WORK, "receive_ms", "start_ms", "order_ms", "startup_ms"), 0.0)

trainings = st.fixed_dictionaries(
    {
        "steps": st.sampled_from([1, 2, 3, 5, 12, 30, 60]),
        "epoch_steps": st.sampled_from([None, 1, 7, 20]),
        "workers": st.sampled_from([0, 1, 2]),
        "loader": st.sampled_from([True, True, True, False]),
        "by_hand": st.booleans(),
        "jitter": st.sampled_from([0.0, 0.3]),
        "stack_period_ms": st.sampled_from([2.0, 50.0, 1e6]),
        "after_unseen": st.booleans(),
        "times_calls": st.booleans(),
        "saves": rarely,
        "validation": rarely,
        "collects": rarely,
        "nodes": st.sampled_from([None, 0, 20]),
        "cores": st.sampled_from([1, 4]),
        **dict.fromkeys(WORK, lengths),
        **dict.fromkeys(("receive_ms", "start_ms", "order_ms", "startup_ms"), st.sampled_from([0.0, 1.0])),
    }
)


def without_lengths(folder: Path) -> None:
    """Every span ends when it begins."""
    for file in folder.glob("*.rec"):
        records = [list(record) for record in fmt.RECORD.iter_unpack(file.read_bytes()) if record[-1]]
        file.write_bytes(b"".join(fmt.RECORD.pack(t1, t1, *rest) for _, t1, *rest in records))


def without_stacks(folder: Path) -> None:
    for file in folder.glob("*.rec"):
        kept = [record for record in fmt.RECORD.iter_unpack(file.read_bytes()) if record[-1] not in (0, fmt.STACK)]
        file.write_bytes(b"".join(fmt.RECORD.pack(*record) for record in kept))


def as_it_is(folder: Path) -> None:
    """Nothing changed."""


@pytest.mark.slow
@settings(max_examples=how_many(60), suppress_health_check=[HealthCheck.too_slow])
@given(trainings, st.sampled_from([as_it_is, as_it_is, without_stacks, without_lengths]))
@example({**INSTANT, "steps": 2}, as_it_is)
@example({**INSTANT, "steps": 3}, as_it_is)
@example({**INSTANT, "steps": 60, "fixed_ms": 1.0}, as_it_is)
@example({**INSTANT, "steps": 12, "epoch_steps": 7, "workers": 1, "loader": True}, as_it_is)
@example({**INSTANT, "steps": 2, "epoch_steps": 1, "workers": 1, "loader": True}, as_it_is)
def test_whatever_a_training_does_it_has_a_report(changes: dict[str, Any], change: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = make_recording(Path(name) / "recording", Training(**changes))
        change(folder)

        try:
            report = diagnose_recording(folder)
        except NothingRecorded:
            takes_no_time = not any(changes[name] for name in (*WORK, "receive_ms", "start_ms", "order_ms"))
            assert changes["steps"] < ENOUGH_STEPS or change is without_lengths or not changes["loader"] or takes_no_time
            return

    assert faults(report) == []
    assert not [row for row in report["health"] if "internal" in row["name"]]
