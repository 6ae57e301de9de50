"""Python threads of the script's own that compute beside the training: what they may hold up is a part of its own, and never healthy."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, finding
from made_measurements import DATA, fed, measurements, merged
from slowstep.analyses.python.concurrent_threads import ConcurrentThread
from slowstep.analyses.python.gil_waits import GilWaits
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.held_up import USUAL
from slowstep.diagnosis.gain import RUN_TO_RUN
from slowstep.findings import NotJudged
from slowstep.parts import Part, PartKind
from slowstep.timeline.timeline import Frame

NAME = "gil-contention"
HELD_UP, QUEUED = Part("compute", PartKind.HELD_UP), Part("compute", PartKind.CORE_WAIT)
DECODE = Frame(file=DATA, function="decode", first_line=90, line=92)


def held_up(cores: float, ms: float, *, waits: float | None = None, late: int | None = 90, queued_ms: float = 0.0) -> dict[str, Any]:
    """Bodies that are blocked for so long in each step while another thread computes; of 100 tries `late` waited for the GIL."""
    thread = ConcurrentThread(name="scores", thread=101, cores=cores, function=DECODE, waits=waits)
    gil_waits = None if late is None else GilWaits(asked=100, waited=late)
    return {
        "ledger": {HELD_UP: ms, QUEUED: queued_ms},
        "concurrent_threads": {"threads": (thread,), "gil_waits": gil_waits},
        "machine": {"threads": 1},
    }


def test_a_thread_that_keeps_its_own_pace_only_takes_a_core_of_its_own():
    m = measurements(**held_up(0.6, 8.0, waits=0.0))

    found, verdict = finding(NAME, m), diagnose(m).verdict
    assert (found.stage, found.claims) == ("compute", (HELD_UP,))
    assert found.gain.predicted == pytest.approx(27.5 / 19.5)
    assert found.fixes[-1].lever == "stub=data:decode"
    assert (verdict.state, verdict.stage, verdict.rule) == ("bottleneck", "compute", NAME), verdict.reason


def test_a_thread_that_waits_for_steps_computes_as_much_for_each_as_now():
    found = finding(NAME, measurements(**held_up(0.8, 8.0, waits=0.4)))

    assert found.gain.predicted == pytest.approx(1 / 0.8)
    # At worst a process that binds takes a tenth longer, and two runs differ by a little.
    assert found.gain.steady_low == pytest.approx((1 - RUN_TO_RUN) / (1.1 * 0.8))
    assert "multiprocessing" in found.fixes[0].text
    # At best what it computes costs nothing.
    assert found.gain.high is not None
    assert found.gain.high > 27.5 / 19.5


def test_where_a_process_gains_nothing_less_work_is_advised_and_the_verdict_stays_open():
    m = measurements(**held_up(0.95, 8.0, waits=0.4))

    found = finding(NAME, m)
    assert found.gain.predicted == pytest.approx(27.5 / 19.5)
    assert "multiprocessing" in found.fixes[1].text
    assert diagnose(m).verdict.state == "undetermined"


def test_what_the_training_waits_for_a_core_goes_too():
    # A worker of the loader computes for 6.5 ms of each step meanwhile, a fifth of a core beside the thread's 0.6.
    found = finding(NAME, measurements(**held_up(0.6, 8.0, waits=0.0, queued_ms=5.0)))

    assert found.claims == (HELD_UP, QUEUED)
    assert found.gain.predicted == pytest.approx(32.5 / (19.5 + 5.0 * 0.2 / 0.8))


def test_what_operations_with_several_threads_are_blocked_anyway_stays():
    one = finding(NAME, measurements(**held_up(0.6, 8.0, waits=0.0)))
    several = finding(NAME, measurements(**merged(held_up(0.6, 8.0, waits=0.0), {"machine": {"threads": 2}})))

    assert several.share == pytest.approx(one.share - USUAL.value * 19.0 / 27.5, abs=0.001)


def test_where_the_gil_was_not_asked_for_nothing_may_be_gained():
    m = measurements(**held_up(0.6, 8.0, waits=0.0, late=None))

    gain = finding(NAME, m).gain
    assert gain.steady_low is not None
    assert gain.steady_low <= 1.0
    assert diagnose(m).verdict.state == "undetermined"


@pytest.mark.parametrize("threads", [1, 4])
def test_a_thread_that_lets_go_of_the_gil_is_not_blamed(threads):
    m = measurements(**merged(held_up(0.6, 8.0, late=10), {"machine": {"threads": threads}}))

    assert answer_of(NAME, m) is None
    assert answer_of("slow-prefetch-thread", m) is None


@pytest.mark.parametrize(
    ("training", "rule"), [(fed(0, cpu_ms=30.0), "serial-loader"), (fed(1, cpu_ms=60.0, cores=8.0), "too-few-workers")]
)
def test_a_larger_bottleneck_leads_and_neither_is_folded_into_the_other(training, rule):
    diagnosis = diagnose(measurements(**merged(training, held_up(0.3, 4.0))))

    assert (diagnosis.verdict.state, diagnosis.verdict.rule) == ("bottleneck", rule), diagnosis.verdict.reason
    assert NAME in [found.rule for found in diagnosis.findings]


@pytest.mark.parametrize(
    "measured",
    [{"concurrent_threads": {"looked_at": False}}, {**held_up(0.6, 8.0), "device": "cuda"}, {**held_up(0.6, 8.0), "sharing": {"ranks": 2}}],
    ids=["nothing looked at threads", "on an accelerator", "beside other ranks"],
)
def test_what_cannot_be_told_is_not_judged(measured):
    answer = answer_of(NAME, measurements(**measured))

    assert isinstance(answer, NotJudged)
    assert answer.advisory


@pytest.mark.parametrize("measured", [{}, held_up(0.05, 0.5)], ids=["no thread", "hardly any time"])
def test_a_thread_without_harm_is_none(measured):
    assert answer_of(NAME, measurements(**measured)) is None
