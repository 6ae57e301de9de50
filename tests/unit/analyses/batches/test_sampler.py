"""Samplers that draw indices on the training thread: told from receiving a batch by stacks, or measured where there are no workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LIBRARY, LOOP, MS, SCRIPT, TRAINER_THREAD, Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import Part, PartKind
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE

LOADER = f"{LIBRARY}/utils/data/dataloader.py"
REQUEST = (LOADER, "_BaseDataLoaderIter.__next__", 700, 730)
NEXT_INDEX = (LOADER, "_BaseDataLoaderIter._next_index", 714, 715)
BATCHES = (f"{LIBRARY}/utils/data/sampler.py", "BatchSampler.__iter__", 300, 330)
SAMPLER = (SCRIPT, "HardExamples.__iter__", 12, 14)
QUEUE = ("/usr/lib/python3.11/multiprocessing/queues.py", "Queue.get", 90, 100)
DRAWN = (LOOP, REQUEST, NEXT_INDEX, BATCHES, SAMPLER)
RECEIVED = (LOOP, REQUEST, QUEUE)
DRAWING = Part("preprocess", PartKind.SAMPLER)


def drawn_ms(m: Measurements) -> float:
    """In a step."""
    return float(m.ledger.of_parts(DRAWING).mean()) / MS


def by_stacks(folder: Path, *stacks: tuple[tuple[str, str, int, int], ...], wait_ms: float = 8.0) -> Measurements:
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
    return measure_recording(events.timeline())


@pytest.mark.parametrize(("stacks", "ms"), [((DRAWN,), 8.0), ((DRAWN, RECEIVED), 4.0)], ids=["all of them", "every other one"])
def test_a_sampler_in_python_is_named_and_has_its_part_of_the_requests(tmp_path, stacks, ms):
    m = by_stacks(tmp_path, *stacks)

    assert m.input.sampler_time is not None
    assert (m.input.sampler_time.function.function, m.input.sampler_time.function.first_line) == ("HardExamples.__iter__", 12)
    assert drawn_ms(m) == pytest.approx(ms, rel=0.05)


def test_receiving_a_batch_is_no_sampler(tmp_path):
    m = by_stacks(tmp_path, RECEIVED)

    assert m.input.sampler_time is None
    assert drawn_ms(m) == 0.0


COLUMN = ("/usr/lib/python3.11/site-packages/datasets/arrow_dataset.py", "Column.__getitem__", 680, 687)


@pytest.mark.parametrize(("below", "into"), [((COLUMN,), "Column.__getitem__ (datasets)"), ((), None)], ids=["a library's", "its own"])
def test_what_the_sampler_asks_a_library_for_is_known(tmp_path, below, into):
    sampler_time = by_stacks(tmp_path, (*DRAWN, *below)).input.sampler_time

    assert sampler_time is not None
    assert sampler_time.into == into


Row = tuple[tuple[str, str, int], float, list[tuple[int, float]]]
OURS = ("/opt/slowstep/record/waits.py", "Waits.build_hook.<locals>.__next__", 76)
FETCHED = (f"{LIBRARY}/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch", 1)
NEXT = ("<built-in>", "built-in method builtins.next", 0)
RUNNER = (SCRIPT, "Runner.__next__", 5)


def request(*sampler_time: Row, drawn_ms: float) -> list[Row]:
    """Calls of a request for a batch that takes 3 ms to make, and so long to draw; the rows of what draws come fifth and later."""
    whole = 3 + drawn_ms + 0.1
    return [
        (OURS, whole, [(1, whole)]),
        (REQUEST[:3], whole, [(2, drawn_ms), (3, 3)]),
        (NEXT_INDEX[:3], drawn_ms, [(4, drawn_ms)]),
        (FETCHED, 3, []),
        *sampler_time,
    ]


def _ns(ms: float) -> int:
    """Of three gaps, ms in each."""
    return int(3 * ms * MS)


def serial(folder: Path, rows: list[Row], draw_ms: float = 2.0) -> Measurements:
    """Steps of 20 ms without workers, and calls that were timed in three gaps: function, ms in each, and of that in which others."""
    make_recording(folder, Training(steps=200, workers=0, getitem_ms=3.0, collate_ms=0.0, per_sample_ms=0.5, draw_ms=draw_ms))
    functions = [
        {
            "file": file,
            "function": name,
            "line": line,
            "calls": 3,
            "total_ns": _ns(ms),
            "own_ns": _ns(ms - sum(inner for _, inner in called)),
            "callees": [[callee, _ns(inner)] for callee, inner in called],
        }
        for (file, name, line), ms, called in rows
    ]
    note = {"kind": "calls", "of": "gap", "stretches": 3, "wall_ns": _ns(rows[0][1]), "slowdown": 1.0, "functions": functions}
    with (folder / "100-1.jsonl").open("a") as notes:
        notes.write(json.dumps(note) + "\n")
    return measure_recording(SOURCE.read(folder))


def test_without_workers_what_comes_before_the_fetch_is_drawing_though_no_stack_stands_in_it(tmp_path):
    """A sampler that sorts in Python for 2 ms gives the GIL away later: stacks stand in the data set."""
    m = serial(tmp_path, request((NEXT, 2, [(5, 2)]), (BATCHES[:3], 2, [(6, 2)]), (SAMPLER[:3], 2, []), drawn_ms=2))

    assert drawn_ms(m) == pytest.approx(2, rel=0.1)
    assert m.ledger.of("preprocess", PartKind.TRANSPORT).mean() / MS < 0.1
    sampler_time = m.input.sampler_time
    assert sampler_time is not None
    assert (sampler_time.function.function, sampler_time.gaps) == ("HardExamples.__iter__", 3)
    # Of 2.1 ms beside the fetch the loader's own work takes 0.1.
    assert sampler_time.held == pytest.approx(2 / 2.1, rel=0.01)


def test_the_loaders_own_work_before_a_quick_fetch_is_no_samplers(tmp_path):
    """Torch's own sampler, or one of the user's that takes a twentieth of what the loader does around it."""
    own = serial(tmp_path / "own", request((NEXT, 2, [(5, 2)]), (BATCHES[:3], 2, []), drawn_ms=2))
    quick = request((NEXT, 0.1, [(5, 0.1)]), (SAMPLER[:3], 0.1, []), drawn_ms=0.1)
    quick[1] = (REQUEST[:3], 5.1, [(2, 0.1), (3, 3)])

    assert own.input.sampler_time is None
    held = serial(tmp_path / "quick", quick).input.sampler_time
    assert held is None or held.held < 0.1


def test_a_loader_behind_the_scripts_own_next_is_no_sampler(tmp_path):
    """One built-in `next` calls the script's iterator, which asks the loader, and the sampler: the larger one cannot be in the other."""
    rows = request((NEXT, 5.1, [(5, 2), (6, 5.1)]), (SAMPLER[:3], 2, []), (RUNNER, 5.1, [(0, 5.1)]), drawn_ms=2)

    sampler_time = serial(tmp_path, rows).input.sampler_time

    assert sampler_time is not None
    assert sampler_time.function.function == "HardExamples.__iter__"
