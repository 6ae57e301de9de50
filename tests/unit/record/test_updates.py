"""Updates and what is due at them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from recorded import make_folder, processes
from slowstep.record import updates
from slowstep.record.recorder import Recorder
from slowstep.record.storage import GRANULE_BYTES

STEPS = 20_000
STEP_NS = 4_000
DUE_EVERY = 25


class Optimizer:
    param_groups = ()


def test_shortest_steps_are_counted_once_where_details_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "_DUE_EVERY_NS", DUE_EVERY * STEP_NS)
    clock = itertools.count(10**9, STEP_NS // 4).__next__
    monkeypatch.setattr(updates, "now", clock)
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0, limit_bytes=16 * GRANULE_BYTES)
    before, after = updates.Updates(recorder).build_hooks()
    me, optimizer = recorder.local.me, Optimizer()
    for step in range(STEPS):
        me.held = (clock(), 1, 1, step, 16)
        me.backward_ns, me.backward_took_ns = clock(), 1
        before(optimizer, (), {})
        after(optimizer, (), {})
    recorder.stop("exit")

    (process,) = processes(recorder.folder)
    totals = process.of("TOTALS")
    kept = len(process.of("UPDATE"))
    assert len(totals) > 5
    # Only the steps after the last bookkeeping may be neither kept nor counted.
    assert STEPS - 2 * DUE_EVERY <= kept + sum(record.a for record in totals) <= STEPS
    assert len(process.of("WAIT")) == kept
