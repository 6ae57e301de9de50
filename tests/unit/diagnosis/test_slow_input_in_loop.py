"""A function that makes batches in a loop without a loader, of which workers would take little off it."""

from __future__ import annotations

import pytest

from judged_recordings import named, report_of
from made_gap_notes import counted, line, note, timed
from made_recordings import INPUT_LINE

# A step of 3 ms, of which the loop makes a batch for 1.2 ms.
SHORT = {"loader": False, "workers": 0, "input_ms": 1.2, "fixed_ms": 1.0, "per_sample_ms": 0.04, "optimizer_ms": 0.1, "steps": 800}
MADE = note(line(INPUT_LINE, 1.2, "make"))
IN_PYTHON = counted("make", (61, 1, 0.1), (62, 400, 1.9))


def report(tmp_path, *notes, **changes):
    return report_of(tmp_path, {**SHORT, "producer_lines": notes, **changes})


def test_a_loop_in_python_is_named_with_what_faster_code_gains(tmp_path):
    found = report(tmp_path, MADE, timed(("make", 2.4, 0)), IN_PYTHON)

    assert found["verdict"]["rule"] == "slow-transform", found["verdict"]
    finding = found["findings"][0]
    assert "make (train.py:60) makes batches in the loop" in finding["title"]
    step, made = 2.94, 1.2
    assert finding["gain"]["predicted"] == pytest.approx(step / (step - 0.95 * made), rel=0.05)
    assert finding["gain"]["low"] > 1.03
    assert {row["name"]: row["value"] for row in finding["evidence"]}["a loop in Python"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    "lines",
    [
        counted("make", (61, 1, 0.1), (62, 1, 1.9)),
        counted("make", (61, 400, 0.5), (62, 1, 1.5)),
        counted("make", (61, 40, 1.9)),
        counted("other", (61, 400, 1.9)),
    ],
    ids=["one long operation", "mostly one", "a few long operations", "the lines of another function"],
)
def test_what_no_other_code_makes_faster_is_not_blamed(tmp_path, lines):
    found = report(tmp_path, MADE, timed(("make", 2.4, 0)), lines)

    assert "slow-transform" not in named(found)
    assert found["verdict"]["state"] != "bottleneck"


@pytest.mark.parametrize(("name", "is_named"), [("zlib.decompress", False), ("torch.tensor", True)])
def test_long_calls_of_built_in_functions_are_no_loop_in_python_but_for_what_puts_its_results_together(tmp_path, name, is_named):
    calls = timed(("make", 2.4, 1.8))
    calls["functions"][1]["function"] = f"built-in method {name}"

    assert ("slow-transform" in named(report(tmp_path, MADE, calls, IN_PYTHON))) is is_named


LONG = {"input_ms": 12, "fixed_ms": 12}


def test_faster_code_is_advised_first_where_it_gains_more_than_workers_that_would_take_most_of_it(tmp_path):
    found = report(tmp_path, note(line(INPUT_LINE, 12, "make")), timed(("make", 24, 0)), IN_PYTHON, **LONG)

    assert named(found)[:1] == ["slow-transform"]
    assert found["findings"][0]["also"] == ["serial-loader"]
    assert "workers would take little" not in found["findings"][0]["title"]


@pytest.mark.parametrize("notes", [(), (counted("make", (61, 1, 1.9)),)], ids=["nothing counted", "one operation"])
def test_workers_are_advised_for_what_is_no_loop_in_python_or_not_known_to_be(tmp_path, notes):
    found = report(tmp_path, note(line(INPUT_LINE, 12, "make")), timed(("make", 24, 0)), *notes, **LONG)

    assert named(found)[:1] == ["serial-loader"]
    assert "slow-transform" not in str(found["findings"]) + str(found["not_judged"])


def test_without_counted_lines_it_is_said_that_they_are_missing(tmp_path):
    found = report(tmp_path, MADE, timed(("make", 2.4, 0)))

    codes = {row["rule"]: row["code"] for row in found["not_judged"]}
    assert codes["slow-transform"] == "own-loop-not-seen"
