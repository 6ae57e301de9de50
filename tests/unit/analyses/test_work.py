from __future__ import annotations

import json

import pytest

from made_recordings import LIBRARY, LOOP, MS, SCRIPT, TRAINER_THREAD, Training, Writer, make_recording
from slowstep.analyses import work
from slowstep.analyses.measurements import Measurements, measure
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE

CALL = (f"{LIBRARY}/nn/modules/module.py", "Module._call_impl", 1, 2)
CONVOLUTION = (f"{LIBRARY}/nn/modules/conv.py", "Conv2d.forward", 1, 2)
LINEAR = (f"{LIBRARY}/nn/modules/linear.py", "Linear.forward", 1, 2)


def _measured(tmp_path, *own: tuple[int, tuple[str, str, int, int] | None, int]) -> Measurements:
    """A training whose forward's stacks stand in given lines of the model: (line, what it calls, how many stacks)."""
    folder = make_recording(tmp_path, Training(stack_period_ms=10_000))
    writer = Writer(folder, "extra")
    times = iter(range(1_500, 1_000_000, 10))
    for line, called, count in own:
        stack = writer.stack([LOOP, CALL, (SCRIPT, "Net.forward", 50, line), *([CALL, called] if called else [])])
        for _ in range(count):
            t = next(times) * MS
            writer.event(fmt.STACK, t, t, 1000 + stack, 10 * MS, 0, thread=TRAINER_THREAD)
    for line in writer.lines:
        if line["kind"] == "stack":
            line["id"] += 1000
            line["frames"] = [frame + 1000 for frame in line["frames"]]
        else:
            line["id"] += 1000
    path = folder / "100-1.rec"
    path.write_bytes(b"".join(writer.records) + path.read_bytes())
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.writelines(json.dumps(line) + "\n" for line in writer.lines)
    return measure(SOURCE.read(folder))


def test_the_line_of_the_model_with_most_stacks_is_named_with_the_operation_it_calls(tmp_path):
    found = _measured(tmp_path, (52, CONVOLUTION, 40), (53, LINEAR, 20)).work

    assert found.forward_line is not None
    assert (found.forward_line.where, found.forward_line.operation, found.forward_line.lines) == ("train.py:52", "Conv2d", 2)
    assert found.forward_line.share == pytest.approx(2 / 3, abs=0.02)
    assert found.convolutions == pytest.approx(2 / 3, abs=0.02)


def test_a_line_that_calls_many_operations_is_none_of_theirs(tmp_path):
    third = (f"{LIBRARY}/nn/modules/sparse.py", "Embedding.forward", 1, 2)

    found = _measured(tmp_path, (52, CONVOLUTION, 30), (52, LINEAR, 30), (52, third, 30), (53, LINEAR, 10)).work

    assert found.forward_line is not None
    assert (found.forward_line.where, found.forward_line.operation) == ("train.py:52", None)


def test_few_stacks_name_no_line(tmp_path):
    found = _measured(tmp_path, (52, CONVOLUTION, work.FEWEST_FORWARD_STACKS - 5)).work

    assert found.forward_line is None
    assert found.convolutions is None
