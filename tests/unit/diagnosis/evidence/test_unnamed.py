"""What is advised where time could not be attributed: it fits how the loop gets its input."""

from __future__ import annotations

from typing import Any

import pytest

from judged_recordings import report_of

UNNAMED: dict[str, Any] = {"after_ms": 15, "drop_training_frame": True, "steps": 200}
SPAN = "wrap what runs there: with slowstep.span("
CORES = "the training thread waited for a core for"


@pytest.mark.parametrize(
    ("changes", "said", "not_said"),
    [
        ({}, SPAN, "slowstep.steps()"),
        ({"delay_ms": 30}, CORES, "slowstep.steps()"),
        ({"loader": False}, "wrap the loop's input in slowstep.steps()", "requests for the next input"),
    ],
    ids=["a loader", "a loader, and too few cores", "no loader"],
)
def test_unattributed_time_is_to_be_named_as_the_loops_input_allows(tmp_path, changes, said, not_said):
    report = report_of(tmp_path, UNNAMED | changes)

    summary = report["verdict"]["summary"]
    assert report["verdict"]["code"] == "unattributed-time"
    assert said in summary
    assert not_said not in summary


@pytest.mark.parametrize(("changes", "said"), [({}, SPAN), ({"stack_period_ms": 1e9}, "record longer")], ids=["stacks", "no stacks"])
def test_to_record_longer_is_advised_where_there_are_no_stacks_at_all(tmp_path, changes, said):
    report = report_of(tmp_path, UNNAMED | changes)

    (reason,) = [row["reason"] for row in report["not_judged"] if row["rule"] == "slow-callback"]
    assert said in reason
