"""What is to be recorded longer is said in the words of how it was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.diagnosis.evidence.record_longer import record_longer
from slowstep.reason_words import sentence
from slowstep.sources.recording import read


@pytest.mark.parametrize(
    ("level", "begun", "said"),
    [
        (0, {}, "record longer, at --level 1 or more"),
        (None, {}, "record longer, at --level 1 or more"),
        (0, {"started_in": "a script", "recorded_from_ns": 1, "thread": 1}, "record longer, with level=1 or more"),
        (1, {}, "record longer"),
        (2, {"started_in": "a script", "recorded_from_ns": 1, "thread": 1}, "record longer"),
    ],
)
def test_a_level_is_asked_for_where_it_was_lower_as_it_was_given(
    tmp_path: Path, level: int | None, begun: dict[str, object], said: str
) -> None:
    folder = make_recording(tmp_path, Training(steps=60))
    for file, kind, noted in ((folder / "100-1.jsonl", "process", {"level": level}), (folder / "launcher.jsonl", "run", begun)):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(line | (noted if line["kind"] == kind else {})) + "\n" for line in lines))

    assert sentence(record_longer(measure_recording(read(folder)))) == said
