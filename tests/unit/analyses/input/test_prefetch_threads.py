"""Threads of the script's own that hand something over: known by what they name, or by the pool that has called them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_parts import function_part
from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.sources.recording import SOURCE

# Steps of 49 ms, of which the loop waits in queue.get() for 30; a thread beside it uses nineteen twentieths of a core.
WAITING: dict[str, Any] = {
    "loader": False, "workers": 0, "input_ms": 30.0, "input_blocked_ms": 30.0, "input_file": "queue.py", "beside": (0.95, 0.0),
    "beside_hands_over": True, "threads": 1, "cores": 8,
}  # fmt: skip


def measured(folder: Path, **changes: Any) -> Measurements:
    return measure_recording(SOURCE.read(make_recording(folder, Training(**{**WAITING, **changes}))))


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"beside_hands_over": False, "beside_called_by": "concurrent/futures/thread.py"},
        {"beside_hands_over": False, "beside_called_by": "multiprocessing/pool.py"},
    ],
    ids=["by what it names", "by its pool", "by a pool of multiprocessing"],
)
def test_a_thread_that_hands_something_over_is_known_with_what_it_takes(tmp_path, known):
    m = measured(tmp_path, **known)

    found = m.input.prefetch_threads
    assert found is not None
    assert (found.threads, found.function, found.inner and found.inner[0]) == (
        1,
        function_part("preprocess", "read_ahead", "data.py", 70),
        "decode (data.py:90)",
    )
    step_ns = float(m.step_ns.mean())
    assert (found.wall_ns, found.cpu_ns) == (pytest.approx(step_ns, rel=0.02), pytest.approx(0.95 * step_ns, rel=0.02))
    assert found.busy_share == pytest.approx(1.0)
    assert m.ledger.share("preprocess") == pytest.approx(30 / 49, rel=0.02)


def test_how_long_it_waits_itself_is_known_by_its_stacks(tmp_path):
    found = measured(tmp_path, beside_waits=4).input.prefetch_threads

    assert found is not None
    assert found.busy_share == pytest.approx(0.75, abs=0.02)


BY_POOL: dict[str, Any] = {"beside_hands_over": False, "beside_called_by": "concurrent/futures/thread.py"}
FROM_POOL: dict[str, Any] = {"input_file": "concurrent/futures/_base.py", "input_function": "Future.result"}


@pytest.mark.parametrize(
    ("known", "is_taken"),
    [
        ({"input_function": "Queue.get"}, True),
        ({"input_function": "Queue.put", "input_below": (("threading.py", "Condition.wait"),)}, False),
        ({"input_function": "Thread.start", "input_below": (("threading.py", "Event.wait"), ("threading.py", "Condition.wait"))}, False),
        ({"input_function": "Queue.get", **BY_POOL}, False),
        ({**FROM_POOL, **BY_POOL}, True),
        (FROM_POOL, False),
    ],
    ids=["from its queue", "into a full queue", "a thread's start", "from another's queue", "from its pool", "from another's pool"],
)
def test_it_makes_the_input_where_the_loop_takes_from_such(tmp_path, known, is_taken):
    found = measured(tmp_path, **known).input.prefetch_threads

    assert found is not None
    assert found.is_taken is is_taken


@pytest.mark.parametrize("changes", [{"beside_hands_over": False}, {"beside": None}], ids=["hands nothing over", "no thread that computes"])
def test_other_threads_make_no_batches(tmp_path, changes):
    assert measured(tmp_path, **changes).input.prefetch_threads is None
