"""Steps whose calls could not be timed, as beside compiled code: what stacks say of the script's own Python there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_recordings import LIBRARY, SCRIPT, Training, make_recording
from slowstep.document.report import validate
from slowstep.workflow.diagnose import diagnose_recording

COMPILED = {"kind": "untimed", "why": "compiled"}
# A third of each step's work is forward; all of its stacks stand there.
FORWARD = {"function": "forward", "file": SCRIPT}
GRAPH = {"function": "forward", "file": "<eval_with_key>.5"}
MASK = {"function": "make_mask", "file": SCRIPT}
GENERATED = {"function": "call", "file": "/tmp/torchinductor_me/ab/cabx.py"}
INDUCTOR = {"function": "run", "file": f"{LIBRARY}/_inductor/utils.py"}
CALLED = {**MASK, "line": 50, "calls": 3, "total_ns": 3000, "own_ns": 3000, "callees": []}
TIMED = [
    {"kind": "calls", "of": "body", "stretches": 3, "wall_ns": 60_000_000, "slowdown": 1.0, "functions": [CALLED]},
    {"kind": "lines", "of": "body", "complete": True, "lines": [{**MASK, "first_line": 50, "line": 52, "count": 1, "ns": 1000}]},
]


def _report(folder: Path, inner: dict[str, str], *notes: dict[str, Any], around: dict[str, str] | None = None, **more: Any) -> Any:
    """Of a recording whose forward stands in `inner`, called by `around`: by a model's call where not said."""
    make_recording(folder, Training(**{"steps": 300, **more}))
    path = folder / "100-1.jsonl"
    changed = {"forward": inner, "_call_impl": around or {}}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [{**line, **changed.get(line["function"], {})} if line["kind"] == "frame" else line for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in (*lines, *notes)))
    report = diagnose_recording(folder)
    validate(report)
    return report


def _unjudged(report: Any) -> dict[str, str]:
    return {row["rule"]: row["reason"] for row in report["not_judged"] if row["code"] == "untimed"}


def test_the_scripts_own_python_beside_compiled_code_is_not_called_healthy(tmp_path):
    report = _report(tmp_path, MASK, COMPILED)

    assert set(_unjudged(report)) == {"beside-the-model", "python-between-operations"}
    assert report["verdict"]["state"] == "undetermined"
    assert "most of them in make_mask (train.py:50) or right behind a function that it calls" in report["verdict"]["summary"]
    assert "TORCHDYNAMO_DISABLE=1" in report["verdict"]["summary"]


@pytest.mark.parametrize(
    ("inner", "around"),
    [(GRAPH, None), (GENERATED, INDUCTOR), ({"file": f"{LIBRARY}/functional.py"}, None)],
    ids=["a graph", "generated code", "an operation"],
)
def test_a_compiled_model_is_healthy_where_stacks_stand_in_it(tmp_path, inner, around):
    report = _report(tmp_path, inner, COMPILED, around=around)

    assert not _unjudged(report)
    assert report["verdict"]["state"] == "healthy"


def test_few_stacks_leave_open_what_runs_there(tmp_path):
    report = _report(tmp_path, GRAPH, COMPILED, stack_period_ms=900.0)

    assert all(
        reason.startswith("beside compiled code no calls are timed inside the steps; 0 of ") for reason in _unjudged(report).values()
    )
    assert report["verdict"]["state"] == "undetermined"


@pytest.mark.parametrize("notes", [[], [COMPILED, *TIMED]], ids=["nothing kept them from it", "they were timed before"])
def test_where_calls_were_timed_stacks_leave_nothing_open(tmp_path, notes):
    report = _report(tmp_path, FORWARD, *notes)

    assert not _unjudged(report)
    assert report["verdict"]["state"] == "healthy"
