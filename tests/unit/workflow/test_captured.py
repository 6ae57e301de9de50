"""What the capture of a few steps adds to the report of the recording that it lies in."""

from __future__ import annotations

import shutil
from pathlib import Path

from made_recordings import Training, make_recording
from slowstep.analyses.captures import Capture
from slowstep.faults import Attempts
from slowstep.report.document import validate
from slowstep.workflow.captured import add_capture
from slowstep.workflow.diagnose import diagnose_recording

# A training on a device, with a bottleneck.
TRACE = Path(__file__).parents[2] / "data/kineto/a100_2022_schema/trace.json.gz"


def test_a_bottleneck_of_the_capture_is_the_answer_where_the_recording_leaves_it_open(tmp_path):
    report = diagnose_recording(make_recording(tmp_path, Training(steps=200, nodes=500)))
    assert report["verdict"]["code"] == "rule-not-judged"
    assert [row["rule"] for row in report["not_judged"] if row.get("in_verdict")] == ["small-batch"]
    shutil.copy(TRACE, tmp_path / "capture-7.json.gz")

    add_capture(report, tmp_path, Capture(file="capture-7.json.gz", reason=None, first=7, last=9, begin_ns=0, end_ns=0), Attempts())

    validate(report)
    verdict, first = report["verdict"], report["findings"][0]
    assert (verdict["state"], verdict["rule"], verdict["code"]) == ("bottleneck", first["rule"], "from-capture")
    assert verdict["summary"] == f"{first['title']} (from the capture of steps 7-9)"
    assert not any("in_verdict" in row for row in report["not_judged"])
