"""Batches that were made and are handed over late: because their worker computes, or because handing them over takes its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events
from slowstep.analyses.batches.transfer import FEWEST_WAITS
from slowstep.workflow.diagnose_recordings import diagnose_recording

STEPS = 60
# Of steps of 20 ms, each of which waits 8 ms for a batch that was made 2 ms before, by a worker that has begun with the next one; or 4 ms
# before, by one that does nothing meanwhile.
STEP_MS, WAIT_MS = 20.0, 8.0


def shares(
    folder: Path, *, idle_waits: int = 0, idle_wait_ms: float = 0.5, computes: float = 1.0, batch: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Shares of the ledger's parts. In the last `idle_waits` waits, of `idle_wait_ms`, the worker is idle; it computes for a share of the
    time in which it makes batches.
    """
    events = Events(folder)
    events.loader(workers=1)
    now = 20.0
    for step in range(STEPS):
        is_idle = step >= STEPS - idle_waits
        begin = now - 11.5 if is_idle else now - 9.5
        events.fetch(begin, begin + 7.5, step, worker=0, cpu=7.5 * computes)
        if not is_idle:
            events.fetch(now - 1.5, now + 9, 10_000 + step, worker=0, cpu=10.5 * computes)
        now = events.step(now, batch=step, wait=idle_wait_ms if is_idle else WAIT_MS, length=STEP_MS)
    if batch is not None:
        events.workers[0].lines.append({"kind": "batch", "spare_bytes": 0, "types": {"float32": 1}, **batch})
    report = diagnose_recording(events.close())
    return {part["name"]: part["share"] for row in report["ledger"] for part in row["parts"]}


def test_a_wait_for_a_worker_that_computes_the_next_batch_is_a_wait_for_making(tmp_path):
    found = shares(tmp_path, idle_waits=FEWEST_WAITS)

    waited = (STEPS - FEWEST_WAITS) * (WAIT_MS - 1) / (STEPS * STEP_MS)
    assert found["making samples"] == pytest.approx(waited, rel=0.1)


def test_a_worker_that_does_nothing_meanwhile_is_not_waited_for(tmp_path):
    few = FEWEST_WAITS - 1
    found = shares(tmp_path, idle_waits=few, idle_wait_ms=WAIT_MS, batch={"tensors": 2, "bytes": 8000})

    assert found["making samples"] == pytest.approx((STEPS - few) * (WAIT_MS - 1) / (STEPS * STEP_MS), rel=0.1)


def test_a_worker_that_is_blocked_in_the_next_batch_does_not_hold_the_lock(tmp_path):
    found = shares(tmp_path, idle_waits=FEWEST_WAITS, computes=0.0)

    assert found["transport"] == pytest.approx(((STEPS - FEWEST_WAITS) * WAIT_MS + FEWEST_WAITS * 0.5) / (STEPS * STEP_MS), rel=0.05)


def test_batches_that_take_as_long_from_idle_workers_are_transport(tmp_path):
    found = shares(tmp_path, idle_waits=FEWEST_WAITS, idle_wait_ms=WAIT_MS)

    assert found.get("making samples", 0.0) < 0.01
    assert found["transport"] == pytest.approx(WAIT_MS / STEP_MS, rel=0.05)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ({"tensors": 0, "bytes": 0}, 0.0),
        ({"tensors": 2, "bytes": 8000}, (WAIT_MS - 1) / STEP_MS),
        ({"tensors": 16, "bytes": 8000}, (WAIT_MS - 7.2) / STEP_MS),
        (None, 0.0),
    ],
    ids=["of a kind of its own", "two tensors", "sixteen tensors", "of unknown tensors"],
)
def test_where_no_worker_was_idle_what_the_batch_is_made_of_tells(tmp_path, batch, expected):
    found = shares(tmp_path, batch=batch)

    assert found.get("making samples", 0.0) == pytest.approx(expected, rel=0.1, abs=0.005)
