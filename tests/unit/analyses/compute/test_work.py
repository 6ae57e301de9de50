from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_recordings import LIBRARY, LOOP, MS, SCRIPT, START_NS, TRAINER_THREAD, Training, Writer, make_recording
from slowstep.analyses.compute import work
from slowstep.analyses.compute.work import Work
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import FEWEST_TO_DIVIDE
from slowstep.record.timing.modes import ANOMALY, DETERMINISTIC, FRAMEWORK_MODES, PYTHON_MODES, TRACED
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE

CALL = (f"{LIBRARY}/nn/modules/module.py", "Module._call_impl", 1, 2)
CONVOLUTION = (f"{LIBRARY}/nn/modules/conv.py", "Conv2d.forward", 1, 2)
LINEAR = (f"{LIBRARY}/nn/modules/linear.py", "Linear.forward", 1, 2)


OneCall = tuple[str, str, int, int]


def _measured(
    tmp_path,
    *own: tuple[int, OneCall | tuple[OneCall, ...] | None, int],
    running: dict[int, dict[str, Any]] | None = None,
    calls: int | None = None,
    modes: int = 0,
) -> Measurements:
    """A training whose forward's stacks stand in given lines of the model: (line, what it calls, how many stacks). Which call of a line
    is `running` is told by line, and the model's forward was called so often in each of three bodies that were timed. `modes` are on
    whenever somebody looks.
    """
    folder = make_recording(tmp_path, Training(stack_period_ms=10_000))
    writer = Writer(folder, "extra")
    times = iter(range(1_500, 1_000_000, 10))
    for line, called, count in own:
        below = () if called is None else (called,) if isinstance(called[0], str) else called
        stack = writer.stack([LOOP, CALL, (SCRIPT, "Net.forward", 50, line), *(frame for each in below for frame in (CALL, each))])
        for _ in range(count):
            t = next(times) * MS
            writer.event(fmt.STACK, t, t, 1000 + stack, 10 * MS, 0, thread=TRAINER_THREAD)
    for line in writer.lines:
        if line["kind"] == "stack":
            line["id"] += 1000
            line["frames"] = [frame + 1000 for frame in line["frames"]]
        else:
            line["id"] += 1000
            line |= (running or {}).get(line["line"], {}) if line["file"] == SCRIPT else {}
    if calls is not None:
        row = {"file": SCRIPT, "function": "Net.forward", "line": 50, "calls": 3 * calls, "total_ns": MS, "own_ns": MS, "callees": []}
        writer.lines.append({"kind": "calls", "of": "body", "stretches": 3, "wall_ns": 30 * MS, "slowdown": 1.0, "functions": [row]})
    looks = [START_NS + 500 * MS * (k + 1) for k in range(3)]
    seen = [fmt.RECORD.pack(t, t, modes, FRAMEWORK_MODES, 0, TRAINER_THREAD, 0, 0, fmt.MODES) for t in looks]
    path = folder / "100-1.rec"
    path.write_bytes(b"".join((*writer.records, *seen)) + path.read_bytes())
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.writelines(json.dumps(line) + "\n" for line in writer.lines)
    return measure_recording(SOURCE.read(folder))


def test_the_line_of_the_model_with_most_stacks_is_named_with_the_operation_it_calls(tmp_path):
    found = _measured(tmp_path, (52, CONVOLUTION, 40), (53, LINEAR, 20)).compute.work

    assert found.forward_line is not None
    assert (found.forward_line.where, found.forward_line.operation, found.forward_line.lines) == ("train.py:52", "Conv2d", 2)
    assert found.forward_line.share == pytest.approx(2 / 3, abs=0.02)
    assert found.convolutions == pytest.approx(2 / 3, abs=0.02)


def test_a_line_that_calls_many_operations_is_none_of_theirs(tmp_path):
    third = (f"{LIBRARY}/nn/modules/sparse.py", "Embedding.forward", 1, 2)

    found = _measured(tmp_path, (52, CONVOLUTION, 30), (52, LINEAR, 30), (52, third, 30), (53, LINEAR, 10)).compute.work

    assert found.forward_line is not None
    assert (found.forward_line.where, found.forward_line.operation) == ("train.py:52", None)


WRITING = ("/usr/lib/python3.11/traceback.py", "format_stack", 1, 2)


@pytest.mark.parametrize(("on", "share"), [(ANOMALY, 0.5), (0, None)], ids=["on", "not on"])
def test_what_anomaly_detection_writes_down_is_seen_by_stacks(tmp_path, on, share):
    found = _measured(tmp_path, (52, WRITING, 50), (53, LINEAR, 50), modes=on).compute.work.anomaly

    assert (None if found is None else found.writing) == (None if share is None else pytest.approx(share, abs=0.02))
    assert found is None or found.low < found.writing < found.high


WIDE: dict[int, dict[str, Any]] = {52: {"column": 15, "called": "self.wide", "in_loop": False}}
RECURRENT = (f"{LIBRARY}/nn/modules/rnn.py", "LSTM.forward", 1, 2)
SEQUENTIAL = (f"{LIBRARY}/nn/modules/container.py", "Sequential.forward", 1, 2)


def test_the_call_of_a_line_that_holds_most_is_named_with_its_share_of_the_time(tmp_path):
    line = _measured(tmp_path, (52, CONVOLUTION, 40), (53, LINEAR, 20), running=WIDE, calls=1).compute.work.forward_line

    assert line is not None
    assert line.call is not None
    assert (line.call.name, line.call.operation, line.call.is_one) == ("self.wide", "Conv2d", True)
    assert line.call.share == pytest.approx(2 / 3, abs=0.02)
    assert line.call.low < line.call.window_share < line.call.high


@pytest.mark.parametrize(
    ("called", "changed", "calls", "is_one"),
    [
        (CONVOLUTION, {"in_loop": True}, 1, False),
        ((SEQUENTIAL, CONVOLUTION), {}, 1, False),
        (RECURRENT, {}, 1, False),
        (CONVOLUTION, {}, 4, False),
        (CONVOLUTION, {}, None, None),
        (None, {}, 1, True),
    ],
    ids=["in a loop", "a container", "a recurrent layer", "several times a step", "not known how often", "a function"],
)
def test_a_call_is_one_operation_where_nothing_says_that_it_is_several(tmp_path, called, changed, calls, is_one):
    running = {52: {**WIDE[52], **changed}}

    line = _measured(tmp_path, (52, called, 40), (53, LINEAR, 20), running=running, calls=calls).compute.work.forward_line

    assert line is not None
    assert line.call is not None
    assert line.call.is_one is is_one


@pytest.mark.parametrize(
    ("file", "is_one"), [(f"{LIBRARY}/../vision/attention.py", None), (CONVOLUTION[0], True)], ids=["another's", "its own"]
)
def test_a_layer_whose_code_stands_in_several_lines_of_a_library_may_be_several_operations(tmp_path, file, is_one):
    one, other = ((file, "Attention.forward", 1, line) for line in (20, 30))

    line = _measured(tmp_path, (52, one, 20), (52, other, 20), (53, LINEAR, 20), running=WIDE, calls=1).compute.work.forward_line

    assert line is not None
    assert line.call is not None
    assert line.call.is_one is is_one


def test_older_recordings_do_not_tell_calls_of_a_line_apart(tmp_path):
    line = _measured(tmp_path, (52, CONVOLUTION, 40), (53, LINEAR, 20), calls=1).compute.work.forward_line

    assert line is not None
    assert line.call is None


def test_few_stacks_name_no_line(tmp_path):
    found = _measured(tmp_path, (52, CONVOLUTION, FEWEST_TO_DIVIDE - 5)).compute.work

    assert found.forward_line is None
    assert found.convolutions is None


def _looked(folder: Path, *looks: tuple[int, int], **changed: dict[str, Any]) -> Work:
    """Of a training at whose modes somebody looked each 500 ms: what was on, and what could be seen; with notes of some kinds changed."""
    make_recording(folder, Training())
    times = [START_NS + 500 * MS * (k + 1) for k in range(len(looks))]
    seen = [
        fmt.RECORD.pack(t, t, on, looked_at, 0, TRAINER_THREAD, 0, 0, fmt.MODES) for t, (on, looked_at) in zip(times, looks, strict=True)
    ]
    records, notes = folder / "100-1.rec", folder / "100-1.jsonl"
    records.write_bytes(b"".join(seen) + records.read_bytes())
    told = [json.loads(line) for line in notes.read_text().splitlines()]
    notes.write_text("".join(json.dumps({**line, **changed.get(line["kind"], {})}) + "\n" for line in told))
    return measure_recording(SOURCE.read(folder)).compute.work


def test_modes_are_shares_of_the_looks_that_could_see_them(tmp_path):
    found = _looked(tmp_path, *[(TRACED, PYTHON_MODES)] * 3, *[(0, FRAMEWORK_MODES)] * 2, (DETERMINISTIC, FRAMEWORK_MODES))

    assert found.modes == {work.DebugMode.DEBUGGER: 1.0, work.DebugMode.DETERMINISTIC: pytest.approx(1 / 3)}
    assert found.looks == 6


@pytest.mark.parametrize(("hidden", "env"), [(True, {"CUDA_VISIBLE_DEVICES": ""}), (False, {})])
def test_what_the_process_could_compute_with_is_known(tmp_path, hidden, env):
    facts = {"accelerators": {"nvidia": 2}, "accelerator_built": False}

    found = _looked(tmp_path, facts=facts, process={"env": env}, optimizer={"dtypes": {"float64": 90, "float32": 10}, "tallest": [50, 2]})

    assert (found.accelerators, found.accelerator_built, found.accelerators_hidden) == ({"nvidia": 2}, False, hidden)
    assert (found.dtypes, found.tallest) == ({"float64": 90, "float32": 10}, (50, 2))
