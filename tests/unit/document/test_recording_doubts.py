"""What is doubtful about a recording's own measurements."""

from __future__ import annotations

import pytest

from made_measurements import BODY, HEALTHY, measurements
from slowstep.analyses.machine.machine_topic import Pace
from slowstep.document.recording_doubts import find_recording_doubts


@pytest.mark.parametrize(
    ("steps", "step_ms", "told"), [(200, 100.0, True), (200, 2.0, False), (20, 1000.0, False)], ids=["20 s", "0.4 s", "20 steps"]
)
def test_that_the_pace_varied_is_said_of_as_much_as_can_tell_it(steps: int, step_ms: float, told: bool) -> None:
    m = measurements(steps=steps, ledger=dict.fromkeys(HEALTHY, 0.0) | {BODY: step_ms}, pace=Pace(spread=0.3, beyond_chance=0.3))

    assert ("uneven-pace" in {row.name for row in find_recording_doubts(m)}) == told
