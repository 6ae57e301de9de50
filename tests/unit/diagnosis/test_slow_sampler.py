"""Samplers that draw indices on the training thread: told from receiving a batch by stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from made_recordings import LIBRARY, LOOP, MS, SCRIPT, TRAINER_THREAD
from slowstep.record import format as fmt
from slowstep.workflow.diagnose import diagnose_recording

LOADER = f"{LIBRARY}/utils/data/dataloader.py"
REQUEST = (LOADER, "_BaseDataLoaderIter.__next__", 700, 730)
NEXT_INDEX = (LOADER, "_BaseDataLoaderIter._next_index", 714, 715)
BATCHES = (f"{LIBRARY}/utils/data/sampler.py", "BatchSampler.__iter__", 300, 330)
SAMPLER = (SCRIPT, "HardExamples.__iter__", 12, 14)
QUEUE = ("/usr/lib/python3.11/multiprocessing/queues.py", "Queue.get", 90, 100)
DRAWN = (LOOP, REQUEST, NEXT_INDEX, BATCHES, SAMPLER)
RECEIVED = (LOOP, REQUEST, QUEUE)


def report(folder: Path, *stacks: tuple[tuple[str, str, int, int], ...], wait_ms: float = 8.0) -> dict[str, Any]:
    """Of a hundred steps of 20 ms: a request in which the stacks are taken in turns, one a step, for a batch that was ready."""
    events = Events(folder)
    frames = sorted({frame for stack in stacks for frame in stack})
    for number, (file, function, first, line) in enumerate(frames):
        events.trainer.lines.append({"kind": "frame", "id": number, "file": file, "function": function, "first_line": first, "line": line})
    for number, stack in enumerate(stacks):
        events.trainer.lines.append({"kind": "stack", "id": number, "frames": [frames.index(frame) for frame in stack]})
    events.loader(workers=1)
    now = 20.0
    for batch in range(100):
        events.fetch(now - 15, now - 10, batch, worker=0, cpu=5)
        when = at(now + wait_ms / 2)
        events.trainer.event(fmt.STACK, when, when, batch % len(stacks), 20 * MS, 0, thread=TRAINER_THREAD)
        now = events.step(now, batch=batch, wait=wait_ms, length=20)
    return dict(diagnose_recording(events.close()))


def test_a_sampler_in_python_is_named_and_what_drawing_at_once_gains(tmp_path):
    found = report(tmp_path, DRAWN)

    finding = found["findings"][0]
    assert (found["verdict"]["state"], found["verdict"]["rule"]) == ("bottleneck", "slow-sampler")
    assert "HardExamples.__iter__ (train.py:12)" in finding["title"]
    assert finding["gain"]["predicted"] == pytest.approx(20 / (20 - 0.95 * 8), rel=0.02)


def test_only_the_samplers_part_of_the_requests_is_its(tmp_path):
    found = report(tmp_path, DRAWN, RECEIVED)

    finding = next(finding for finding in found["findings"] if finding["rule"] == "slow-sampler")
    assert finding["share"] == pytest.approx(0.2, rel=0.05)
    assert finding["gain"]["low"] < finding["gain"]["predicted"] < finding["gain"]["high"]


@pytest.mark.parametrize(("stacks", "wait_ms"), [((RECEIVED,), 8.0), ((DRAWN,), 0.5)], ids=["receiving", "hardly any time"])
def test_receiving_a_batch_and_a_quick_sampler_are_none(tmp_path, stacks, wait_ms):
    found = report(tmp_path, *stacks, wait_ms=wait_ms)

    assert "slow-sampler" not in [finding["rule"] for finding in found["findings"]]
