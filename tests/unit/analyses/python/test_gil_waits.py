"""Whether steps wait for the GIL is told by how late the recorder's own thread gets it while a step computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.gil_waits import GilWaits
from slowstep.parts import Part, PartKind
from slowstep.sources.recording import SOURCE
from slowstep.stages import UNATTRIBUTED

HELD_UP = Part("compute", PartKind.HELD_UP)
# Of 12 ms of each body nobody knows what the training thread does; another thread uses nine tenths of a core.
BLOCKED: dict[str, Any] = {"beside": (0.9, 12.0), "engine_calls": (("/usr/lib/python3.11/copy.py", "copy", 1, 2),)}


def measured(folder: Path, **changes: Any) -> Measurements:
    return measure_recording(SOURCE.read(make_recording(folder, Training(**{**BLOCKED, **changes}))))


@pytest.mark.parametrize(("late_ms", "held"), [(2.0, True), (0.1, False), (0.0, None)], ids=["late", "on time", "not told"])
def test_steps_are_held_up_unless_the_gil_is_seen_to_be_free(tmp_path, late_ms, held):
    m = measured(tmp_path, late_ms=late_ms)

    waits = m.python.concurrent_threads.gil_waits
    assert (None if waits is None else waits.shows_held) is held
    assert (m.ledger.share_of(HELD_UP) > 0.2) is (held is not False)


@pytest.mark.parametrize(("late_ms", "is_left"), [(2.0, False), (0.0, True)], ids=["held", "not told"])
def test_what_gaps_are_blocked_that_nothing_names_is_held_up_too_where_the_gil_is(tmp_path, late_ms, is_left):
    # Of gaps so short too few stacks are taken to name them.
    gaps = {"loader": False, "workers": 0, "input_ms": 1.0, "input_blocked_ms": 1.0}

    m = measured(tmp_path, late_ms=late_ms, **gaps)

    share = 1.0 * m.steps.count * 1e6 / float(m.step_ns.sum())
    assert m.ledger.share(UNATTRIBUTED) == pytest.approx(share if is_left else 0.1 * share, rel=0.05)


@pytest.mark.parametrize(
    ("late_ms", "blocked_ms", "left_ms"), [(0.0, 4.0, 4.0), (2.0, 4.0, 0.0), (2.0, 20.0, 8.0)], ids=["not told", "held", "reads"]
)
def test_what_making_input_is_blocked_is_held_up_no_longer_than_bodies_are(tmp_path, late_ms, blocked_ms, left_ms):
    making = {"loader": False, "workers": 0, "input_ms": 30.0, "input_blocked_ms": blocked_ms}

    m = measured(tmp_path, late_ms=late_ms, **making)

    assert float(m.ledger.of("read", PartKind.BLOCKED).mean()) / 1e6 == pytest.approx(left_ms, abs=0.5)


def test_a_thread_that_mostly_waits_is_not_said_to_let_go_of_the_gil():
    assert GilWaits(asked=200, waited=30, busy=0.3).shows_held is None
    assert GilWaits(asked=200, waited=80, busy=0.3).shows_held is True


def test_a_thread_that_sleeps_is_not_seen_to_let_go_of_the_gil(tmp_path):
    """It computes for a third of the time, and stands nowhere where threads wait for each other."""
    waits = measured(tmp_path, beside=(0.33, 0.0), late_ms=0.1).python.concurrent_threads.gil_waits

    assert waits is not None
    assert waits.busy == pytest.approx(0.33, abs=0.02)


def test_nobody_asks_without_a_thread_that_computes(tmp_path):
    assert measured(tmp_path, beside=None, late_ms=2.0).python.concurrent_threads.gil_waits is None


def test_on_a_busy_machine_who_waits_may_wait_for_a_core():
    assert GilWaits(asked=100, waited=85, crowded=True).shows_held is None
    assert GilWaits(asked=100, waited=5, crowded=True).shows_held is False


@pytest.mark.parametrize(("waited", "held"), [(0, False), (20, False), (40, None), (85, True)])
def test_so_many_tries_tell_or_do_not(waited, held):
    assert GilWaits(asked=100, waited=waited).shows_held is held
