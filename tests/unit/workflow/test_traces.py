from __future__ import annotations

import json
from pathlib import Path

import pytest

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


XPLANES = Path(__file__).parents[2] / "data/xplane"


def test_keras_training_is_seen_by_its_gradients_and_gets_its_verdict():
    # Its data set sleeps 4 ms for each of a batch's four samples (made_by.py).
    verdict = analyze([XPLANES / "keras_fit/trace.xplane.pb"])["verdict"]

    assert (verdict["state"], verdict["rule"], verdict["stage"]) == ("bottleneck", "input-wait", "preprocess")


@pytest.mark.parametrize(
    ("trace", "said"),
    [("jax_steps", "jax.profiler.TraceAnnotation"), ("mi300_jax", "no backward pass: it is of an inference")],
)
def test_a_trace_of_jax_tells_training_from_inference(trace, said):
    summary = analyze([XPLANES / trace / "trace.xplane.pb"])["verdict"]["summary"]

    assert said in summary
    assert "whether it trains" not in summary
