"""A training that was stopped for a while (Ctrl-Z, a debugger, a laptop's lid) is not blamed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_events import Events, at
from slowstep.record.writing import format as fmt
from slowstep.workflow.diagnose_recordings import diagnose_recording

STOPPED_MS = 600_000.0


def _report(folder: Path, *, silent: bool, cpu_share: float, stopped_at: int = 60) -> dict[str, Any]:
    """A hundred steps of 10 ms with a callback's 2 ms, of which one lasts ten minutes longer; a worker makes a batch meanwhile."""
    events = Events(folder)
    events.loader(workers=1)
    stack = events.trainer.stack([("/home/user/project/train.py", "main", 10, 30)])
    now = cpu = 0.0
    for batch in range(100):
        held = STOPPED_MS if batch == stopped_at else 0.0
        events.fetch(now, now + 3 + held, batch, worker=0, cpu=2)
        events.wait(now + 4, now + 5, batch)
        events.mark(now + 5, cpu + 1, 0)
        events.backward(now + 6, now + 9 + held)
        events.update(now + 9 + held, now + 10 + held)
        now, cpu = now + 12 + held, cpu + 11 + held * cpu_share
        events.mark(now - 2, cpu - 2, 0)
        for when in range(int(now - held) - 12, int(now) if held and not silent else int(now - held), 100):
            events.trainer.event(fmt.STACK, at(when), at(when), stack, 1, 0, thread=100)
        events.trainer.event(fmt.STACK, at(now), at(now), stack, 1, 0, thread=100)
    return dict(diagnose_recording(events.close()))


@pytest.mark.parametrize("stopped_at", [60, 3], ids=["in the window", "in the warm-up"])
def test_a_stop_is_left_out_of_the_ledger_and_said(tmp_path, stopped_at):
    report = _report(tmp_path, silent=True, cpu_share=0.0, stopped_at=stopped_at)

    assert report["throughput"]["step_ms"]["median"] == pytest.approx(12, rel=0.01)
    assert report["throughput"]["steps_per_s"] == pytest.approx(1000 / 12, rel=0.01)
    assert "was suspended once, 10.0 min in total" in report["run"]["notes"][0]


@pytest.mark.parametrize(("silent", "cpu_share"), [(False, 0.0), (True, 1.0)], ids=["others ran", "it computed"])
def test_a_long_step_is_none(tmp_path, silent, cpu_share):
    report = _report(tmp_path, silent=silent, cpu_share=cpu_share)

    assert report["throughput"]["steps_per_s"] < 1
    assert "notes" not in report["run"]
