"""What goes with iterators that are made anew: the freeing of what they hold, and the collector that walks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events
from made_recordings import MS
from slowstep.analyses.input.restarts import Restarts
from slowstep.analyses.measure_recording import measure_recording

STEPS = 60
MADE_MS, FREED_MS, COLLECTED_MS, BATCH_MS = 50.0, 10.0, 7.0, 1.0


def _restarts(folder: Path, *, generation: int) -> Restarts:
    """A new iterator for each batch: 50 ms to make it, 7 of garbage collection in the fetch, 10 to free it."""
    events, now = Events(folder), 0.0
    for step in range(1, STEPS + 1):
        events.loader(iterator=step, loader=1, begin=now, end=now + MADE_MS)
        begin = now + MADE_MS
        now = begin + COLLECTED_MS + BATCH_MS
        events.fetch(begin, now, 0, cpu=COLLECTED_MS + BATCH_MS, iterator=step)
        events.collection(begin + 0.5, begin + 0.5 + COLLECTED_MS, generation=generation)
        events.wait(begin, now, 0, iterator=step)
        events.shutdown(now, now + FREED_MS, iterator=step)
        now += FREED_MS
        events.backward(now + 5, now + 15)
        events.update(now + 15, now + 16)
        now += 16.1
    return measure_recording(events.timeline(), warmup=4).over_time.restarts


@pytest.mark.parametrize(("generation", "goes"), [(0, True), (2, False)], ids=["young", "all"])
def test_freeing_goes_with_iterators_and_so_does_the_collection_of_what_they_have_made(tmp_path, generation, goes):
    restarts = _restarts(tmp_path, generation=generation)

    assert restarts.start_ns.mean() / MS == pytest.approx(MADE_MS + FREED_MS, abs=0.5)
    assert restarts.collected_ns.mean() / MS == pytest.approx(COLLECTED_MS * goes, abs=0.5)
