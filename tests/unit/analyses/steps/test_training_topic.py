"""How a training was recorded: at which level, and by whom it was begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import read

BEGUN_WITHIN = {"started_in": "a script", "recorded_from_ns": 1, "thread": 1}


@pytest.mark.parametrize(("level", "begun", "from_within"), [(0, {}, False), (None, {}, False), (2, BEGUN_WITHIN, True)])
def test_level_and_who_began_the_recording_are_known(
    tmp_path: Path, level: int | None, begun: dict[str, object], from_within: bool
) -> None:
    folder = make_recording(tmp_path, Training(steps=60))
    for file, kind, noted in ((folder / "100-1.jsonl", "process", {"level": level}), (folder / "launcher.jsonl", "run", begun)):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(line | (noted if line["kind"] == kind else {})) + "\n" for line in lines))

    training = measure_recording(read(folder)).training

    assert (training.level, training.from_within) == (level, from_within)
