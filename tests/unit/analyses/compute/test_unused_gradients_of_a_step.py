"""What looks at graphs have noted of gradients that no optimizer takes, as a step has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_recordings import START_NS, Training, make_recording
from slowstep.analyses.compute.unused_gradients import Taker, UnusedGradients
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import SOURCE

NOTHING = {"kind": "unused", "state": "none", "looks": 1, "found": 0}
KEPT: dict[str, Any] = {
    "kind": "unused", "state": "kept", "looks": 8, "found": 8, "parameters": 6, "elements": 900, "rounds": 3, "name": "teacher",
    "nodes": 40, "alone": 10, "halves": 2, "passing": 0, "alone_ns": 5_000_000, "halves_ns": 400_000,
}  # fmt: skip


def _unused(folder: Path, *notes: dict[str, Any]) -> UnusedGradients | None:
    made = make_recording(folder, Training(workers=2, fixed_ms=10, batch_size=8))
    with (made / "100-1.jsonl").open("a") as file:
        for number, note in enumerate(notes):
            file.write(json.dumps({"at_ns": START_NS + 500_000_000 + number * 1_000_000, **note}) + "\n")
    return measure_recording(SOURCE.read(made)).compute.unused


def test_nothing_is_known_where_nobody_looked_and_none_is_known_where_somebody_did(tmp_path):
    assert _unused(tmp_path / "older") is None
    assert _unused(tmp_path / "clean", NOTHING) == UnusedGradients(taken=Taker.NONE_MADE)


def test_times_are_the_median_of_passes_and_the_rest_is_of_the_last_look(tmp_path):
    longer = {**KEPT, "looks": 16, "found": 8, "rounds": 5, "alone_ns": 7_000_000}
    found = _unused(tmp_path, NOTHING, KEPT, {**KEPT, "alone_ns": None, "halves_ns": None, "passing": 1}, longer)

    assert found is not None
    assert (found.taken, found.name, found.comparisons, found.passes_on) == (Taker.BY_NOBODY, "teacher", 4, True)
    assert (found.alone_ns, found.halves_ns, found.operations) == (6e6, 4e5, 0.25)
    assert found.passes == pytest.approx(0.5, rel=0.02)
    assert found.saved_ns == pytest.approx(0.5 * 6.2e6, rel=0.02)


def test_what_is_held_or_used_by_now_is_no_longer_of_no_use(tmp_path):
    held = _unused(tmp_path / "held", KEPT, {**NOTHING, "looks": 40, "found": 8})
    used = _unused(tmp_path / "used", KEPT, {**KEPT, "state": "touched", "alone_ns": None, "halves_ns": None})

    assert held == UnusedGradients(taken=Taker.NONE_MADE)
    assert used is not None
    assert (used.taken, used.alone_ns) == (Taker.BY_SOMEBODY, 5e6)


@pytest.mark.parametrize("damage", [{"found": 9}, {"alone": -1}, {"state": 3}, {"looks": None}])
def test_a_line_that_cannot_be_is_none(tmp_path, damage):
    found = _unused(tmp_path, NOTHING, {**KEPT, **damage})

    assert found == UnusedGradients(taken=Taker.NONE_MADE)
