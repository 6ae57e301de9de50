"""Functions that have grown since their calls were timed: what they did then says nothing of what they do."""

from __future__ import annotations

import json

import pytest

from made_parts import function_part
from made_recordings import SCRIPT, Training, make_recording
from made_timed_calls import calls
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.sources.recording import SOURCE

PART = function_part("output", "after_step", "train.py", 80)


@pytest.mark.parametrize(
    ("growth_ms", "timed_at", "is_outgrown"), [(0, 0, False), (20, 0, True), (20, 180, False)], ids=["steady", "early", "late"]
)
def test_a_callback_that_grows_is_not_known_by_calls_that_were_timed_early(tmp_path, growth_ms, timed_at, is_outgrown):
    training = Training(steps=300, after_ms=10 - growth_ms / 4, after_growth_ms=growth_ms, after="after_step")
    folder = make_recording(tmp_path, training)
    ends_ns = find_trainer(SOURCE.read(folder)).update_end_ns
    note = {**calls("gap", 30, ((SCRIPT, "after_step", 80), 30, 30, [])), "began_ns": ends_ns[timed_at : timed_at + 3].tolist()}
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.write(json.dumps(note) + "\n")

    assert (PART in measure_recording(SOURCE.read(folder)).after_update.outgrown) is is_outgrown
