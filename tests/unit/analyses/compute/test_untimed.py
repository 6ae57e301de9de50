"""Steps whose calls could not be timed, as beside compiled code: what stacks say of the script's own Python there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_recordings import LIBRARY, SCRIPT, Training, make_recording
from slowstep.analyses.compute.untimed import Untimed
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.writing.format import UNTIMED_COMPILED
from slowstep.sources.recording import SOURCE

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


def _untimed(
    folder: Path, inner: dict[str, str], *notes: dict[str, Any], around: dict[str, str] | None = None, **more: Any
) -> Untimed | None:
    """Of a recording whose forward stands in `inner`, called by `around`: by a model's call where not said."""
    make_recording(folder, Training(**{"steps": 300, **more}))
    path = folder / "100-1.jsonl"
    changed = {"forward": inner, "_call_impl": around or {}}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [{**line, **changed.get(line["function"], {})} if line["kind"] == "frame" else line for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in (*lines, *notes)))
    return measure_recording(SOURCE.read(folder)).compute.work.untimed


def test_stacks_in_the_scripts_own_python_beside_compiled_code_are_counted_and_named(tmp_path):
    found = _untimed(tmp_path, MASK, COMPILED)

    assert found is not None
    assert (found.why, found.most) == ((UNTIMED_COMPILED,), "make_mask (train.py:50)")
    assert (found.stacks, found.of) == (30, 30)
    assert found.at_most == 1.0


@pytest.mark.parametrize(
    ("inner", "around"),
    [(GRAPH, None), (GENERATED, INDUCTOR), ({"file": f"{LIBRARY}/functional.py"}, None)],
    ids=["a graph", "generated code", "an operation"],
)
def test_stacks_in_a_compiled_model_are_none_of_the_scripts(tmp_path, inner, around):
    found = _untimed(tmp_path, inner, COMPILED, around=around)

    assert found is not None
    assert (found.stacks, found.most) == (0, None)
    assert found.at_most < 0.1


def test_few_stacks_leave_open_what_runs_there(tmp_path):
    found = _untimed(tmp_path, GRAPH, COMPILED, stack_period_ms=900.0)

    assert found is not None
    assert found.stacks == 0
    assert found.at_most > 0.1


@pytest.mark.parametrize("notes", [[], [COMPILED, *TIMED]], ids=["nothing kept them from it", "they were timed before"])
def test_where_calls_were_timed_stacks_leave_nothing_open(tmp_path, notes):
    assert _untimed(tmp_path, FORWARD, *notes) is None
