"""Trainings that update by hand: what follows their backward is the update, a callback, or not known to be either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_parts import function_part, lines_part
from made_recordings import MS, Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.parts import Part, PartKind
from slowstep.sources.recording import SOURCE

UPDATE = Part("compute", PartKind.UPDATE_BY_HAND)
CALLBACK = function_part("output", "save_mask_images", "train.py", 80)


def after_ms(folder: Path, **changes: Any) -> dict[Part, float]:
    """What of a step takes longer than where nothing follows its backward, in ms: 20 ms do, in a function or on a line of the loop's."""
    ledger = measure_recording(SOURCE.read(make_recording(folder, Training(after_ms=20, **changes)))).ledger
    return {part: ledger.total_of(part) / ledger.steps / MS for part in ledger.parts}


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"by_hand": True, "after_gradients": True}, UPDATE), ({"after_gradients": True}, CALLBACK), ({"by_hand": True}, CALLBACK)],
    ids=["a function that names gradients", "beside an optimizer", "another function"],
)
def test_only_a_function_that_names_gradients_is_an_update_by_hand(tmp_path, changes, part):
    found = after_ms(tmp_path, **changes)

    assert found[part] == pytest.approx(20, rel=0.05)
    assert {UPDATE, CALLBACK} & set(found) == {part}


def test_the_loops_own_lines_may_hold_more_than_the_update(tmp_path):
    beside = Part("compute", PartKind.BESIDE_BACKWARD, None, lines_part("output", "train.py", 34).place)

    assert after_ms(tmp_path, after="", by_hand=True)[beside] == pytest.approx(20, rel=0.05)
