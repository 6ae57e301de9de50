"""Of a trace with more events than memory allows the last steps are kept, whole and with what stands around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kineto_files import event, kernel, launch, read, written
from slowstep.sources._last_steps import LEFT_OUT_SHARE, STEPS_AT_LEAST, STEPS_LEFT_OUT, first_kept_ns
from slowstep.sources._source import HowRead

STEPS = 10
STEP_US = 1000


def trace(folder: Path) -> Path:
    """Ten steps of an operator, a launch and its kernel, under a Python function that lasts for all of them."""
    events = [event("train.py(8): train", 0, STEPS * STEP_US, "python_function")]
    for number in range(STEPS):
        at = number * STEP_US
        events += [
            event(f"ProfilerStep#{number}", at, STEP_US - 100, "user_annotation"),
            event("aten::mm", at + 10, 50),
            launch(at + 20, number + 1),
            # Of every step the kernel is still running when the next begins.
            kernel(at + 900, 200, number + 1),
        ]
    return written(folder, events)


def kept(starts: list[int], most: int) -> int | None:
    steps = np.arange(STEPS) * STEP_US
    return first_kept_ns(steps, [np.array(starts)], most)


def test_where_all_fit_or_no_step_is_marked_nothing_is_left_out() -> None:
    every = [at * 100 for at in range(100)]

    assert kept([], 0) is None
    assert kept(every, 100) is None
    assert first_kept_ns(np.zeros(0, dtype=np.int64), [np.array(every)], 1) is None
    assert first_kept_ns(np.arange(STEPS_AT_LEAST) * STEP_US, [np.array(every)], 1) is None


@pytest.mark.parametrize(("most", "steps"), [(99, 9), (91, 8), (0, STEPS_AT_LEAST)])
def test_as_many_of_the_last_steps_are_kept_as_fit_but_enough_for_a_verdict(most: int, steps: int) -> None:
    every = [at * 100 for at in range(100)]

    assert kept(every, most) == (STEPS - steps) * STEP_US
    assert steps == STEPS_AT_LEAST or steps * 10 + (STEPS - steps) * 10 * LEFT_OUT_SHARE <= most


def test_a_kineto_file_is_kept_from_a_step_on_with_all_that_is_open_then(tmp_path: Path) -> None:
    path = trace(tmp_path)

    whole, last = read(path), read(path, HowRead(most_events=16))

    assert last.table("marked_steps")["number"].to_list() == [6, 7, 8, 9]
    assert last.table("host_events")["name"].to_list().count("aten::mm") == 4
    assert "train.py(8): train" in last.table("host_events")["name"].to_list()
    # The kernel of the step before runs on into the first one.
    assert last.table("device_events").height == 5
    assert last.table("device_events")["start_ns"].to_list() == whole.table("device_events")["start_ns"].to_list()[5:]
    assert last.trace is not None
    assert last.trace.events == 4 + 5 + 9
    assert {row.name: row.count for row in last.health}[STEPS_LEFT_OUT.name] == 6
    assert STEPS_LEFT_OUT.name not in {row.name for row in whole.health}
