from __future__ import annotations

import json

from slowstep.workflow.analyze import analyze


def trace(path, operators: int) -> None:
    """A trace that tells no rank, of so many operators."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 100.0 * at, "dur": 50.0, "args": {}}
        for at in range(operators)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))


def ranks(report) -> dict[int, str]:
    return {row["rank"]: row["report"] for row in report["run"]["rank_rows"]}


def test_a_trace_without_a_rank_gets_a_number_that_no_other_has(tmp_path):
    for name in ("a_rank1.json", "b.json", "c_rank0.json", "d.json"):
        trace(tmp_path / name, 9)

    report = analyze([tmp_path])

    assert ranks(report) == {0: "c_rank0.json", 1: "a_rank1.json", 2: "b.json", 3: "d.json"}
    assert "duplicate-ranks" not in {row["name"] for row in report["health"]}


def test_of_two_traces_of_a_rank_the_one_with_more_events_is_taken(tmp_path):
    for name, operators in (("old_rank1.json", 5), ("new_rank1.json", 9), ("rank0.json", 9)):
        trace(tmp_path / name, operators)

    report = analyze([tmp_path])

    assert ranks(report) == {0: "rank0.json", 1: "new_rank1.json"}
    assert {row["name"]: row["count"] for row in report["health"]}["duplicate-ranks"] == 1
