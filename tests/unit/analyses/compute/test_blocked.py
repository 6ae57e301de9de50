from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events
from made_recordings import LOOP, MS, SCRIPT, TRAINER_THREAD
from slowstep.analyses.compute.blocked import Blocked
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.writing import format as fmt

STEPS, LENGTH = 60, 10.0


def _blocked(
    folder: Path, *, own: float, tree: float | None = None, delay: float = 0.0, stolen: float = 0.0, workers: int = 0, **facts: Any
) -> Blocked | None:
    """Of a training whose step of 10 ms waits 1 ms for its batch: ms of CPU time per step, of its thread and of its process tree."""
    events = Events(folder)
    events.trainer.lines.append({"kind": "facts", "threads": 1, **facts})
    events.loader(workers=workers)
    for k in range(STEPS):
        begin = k * LENGTH
        events.step(begin, batch=k)
        if workers:
            events.fetch(begin, begin + 8, k, worker=0, cpu=6)
        events.mark(begin + 1, own * k, delay * k)
        events.mark(begin + LENGTH, own * (k + 1), delay * (k + 1))
        if tree is not None:
            events.reading(begin, tree * k, tree * k, stolen * k)
    return measure_recording(events.timeline()).compute.blocked


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({"own": 3.0}, 0.6),
        ({"own": 9.5}, 0.0),
        # The thread waits for a core, which others have.
        ({"own": 3.0, "delay": 6.0}, 0.0),
        # The hypervisor gives the core to others.
        ({"own": 3.0, "tree": 3.0, "stolen": 6.5}, 0.0),
        # Other threads of the process compute what it waits for.
        ({"own": 3.0, "tree": 14.0, "threads": 2}, 0.0),
        # Its loader's workers make batches: that is not what it waits for in its steps.
        ({"own": 3.0, "tree": 9.0, "workers": 1}, 0.6),
    ],
    ids=["blocked", "computing", "queued", "stolen", "other threads", "workers"],
)
def test_what_neither_the_thread_nor_its_process_computes_is_blocked(tmp_path, settings, share):
    blocked = _blocked(tmp_path, **settings)

    assert blocked is not None
    assert blocked.share == pytest.approx(share, abs=0.02)


def test_the_line_is_one_at_which_the_thread_did_not_compute(tmp_path):
    events = Events(tmp_path)
    events.trainer.lines.append({"kind": "facts", "threads": 1})
    events.loader()
    for k in range(STEPS):
        events.step(k * LENGTH, batch=k)
        events.mark(k * LENGTH + 1, 3.0 * k, 0.0)
        # Backward computes for longer than the step is blocked.
        for after, line, flags in ((3, 20, 0), (5, 20, 0), (7, 11, fmt.BLOCKED)):
            when = (k * LENGTH + after) * MS
            stack = events.trainer.stack([LOOP, (SCRIPT, "work", line, line)])
            events.trainer.event(fmt.STACK, when, when, stack, 3 * MS, 0, thread=TRAINER_THREAD, flags=flags)

    blocked = measure_recording(events.timeline()).compute.blocked

    assert blocked is not None
    assert blocked.line == "train.py:11"


def test_who_computed_is_unknown_where_other_threads_may_and_nobody_counted(tmp_path):
    assert _blocked(tmp_path, own=3.0, threads=2) is None
