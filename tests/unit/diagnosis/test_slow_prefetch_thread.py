"""Threads of the script's own that make its batches: named where they cannot keep up, with what processes in their place would gain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from judged import answer_of, code_of, finding, values
from made_measurements import MS, loop_fed, measurements, merged, per_step
from made_parts import function_part
from slowstep.analyses.input.prefetch_threads import PrefetchThreads
from slowstep.analyses.python.concurrent_threads import ConcurrentThread
from slowstep.analyses.python.gil_waits import GilWaits
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.input.input_side import COMFORTABLE
from slowstep.parts import CodePlace, Part, PartKind

NAME, GIL = "slow-prefetch-thread", "gil-contention"
HELD_UP = Part("compute", PartKind.HELD_UP)
BODY_MS, WAITED_MS = 12.0, 30.0
STEP_MS = BODY_MS + WAITED_MS
PART = Part("preprocess", PartKind.THREAD_WAIT, place=CodePlace("train.py", 24))


def waits(ms: float = WAITED_MS, *, busy: float = 0.95, threads: int | None = 1, cores: float = 8.0, **more: Any) -> dict[str, Any]:
    """Steps in which the loop waits for so long in queue.get(); threads beside it are busy for a share of their time."""
    made = loop_fed(ms, part=PART, body_ms=BODY_MS, cores=cores, machine={"threads": 1}, **more)
    found = None
    if threads is not None:
        step_ns = (BODY_MS + ms) * MS
        found = PrefetchThreads(
            threads=threads,
            function=function_part("preprocess", "read_ahead", "data.py", 70),
            inner=("decode (data.py:90)", 0.9),
            wall_ns=threads * step_ns,
            cpu_ns=0.95 * threads * step_ns,
            busy_share=busy,
            stacks=200,
        )
    # Nothing of it is made by the loop itself.
    waited = {"made_ns": per_step(0.0), "others_ns": per_step(ms), "parts": (), "largest": None, "other": PART}
    return merged(made, {"prefetch_threads": found, "trainer_cpu_ns": BODY_MS * MS, "loop_input": replace(made["loop_input"], **waited)})


def test_a_thread_that_always_computes_is_named_with_what_workers_gain():
    m = measurements(**waits())

    found, verdict = finding(NAME, m), diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", NAME), verdict.reason
    shown = values(found)
    assert (shown["made in a thread"], shown["most of it in"]) == ("read_ahead", "decode (data.py:90)")
    assert (shown["making batches"], shown["of it computing"]) == pytest.approx((STEP_MS, 0.95 * STEP_MS))
    # The body, and the receipt of a batch, take longer than the workers that are proposed.
    assert found.gain.predicted == pytest.approx(STEP_MS / (BODY_MS + 1), rel=0.05)
    assert f"num_workers={math.ceil(STEP_MS / (COMFORTABLE * BODY_MS))}" in found.fixes[0].text


def test_on_few_cores_workers_gain_what_the_cores_allow():
    found = finding(NAME, measurements(**waits(cores=2.0)))

    allowed_ms = (0.95 * STEP_MS + BODY_MS + 1) / 2
    assert found.gain.predicted == pytest.approx(STEP_MS / allowed_ms, rel=0.05)


@pytest.mark.parametrize(("measured", "code"), [(waits(busy=0.75), "thread-waits"), (waits(threads=None), "no-computing-thread")])
def test_a_thread_that_is_not_known_to_be_the_limit_is_not_blamed(measured, code):
    m = measurements(**measured)

    assert code_of(NAME, m) == code
    assert diagnose(m).verdict.state == "undetermined"


def holds_up(ms: float, *, is_taken: bool = True, cores: float = 8.0, more_cores: float = 0.0) -> dict[str, Any]:
    """Steps whose bodies are blocked for so long while a thread makes the next batches, which lie ready, on half of a core; and another
    thread may compute.
    """
    makes = ConcurrentThread(name="maker", thread=7, cores=0.5, function=None)
    other = ConcurrentThread(name="other", thread=8, cores=more_cores, function=None, waits=0.0)
    given = waits(0.2, busy=0.6, cores=cores, ledger={HELD_UP: ms})
    found = replace(given["prefetch_threads"], cpu_ns=0.5 * (BODY_MS + 0.2 + ms) * MS, is_taken=is_taken)
    concurrent = {"threads": (makes, other) if more_cores else (makes,), "gil_waits": GilWaits(asked=100, waited=90)}
    return merged(given, {"prefetch_threads": found, "concurrent_threads": concurrent})


def test_a_thread_that_makes_batches_ahead_and_holds_up_the_steps_is_about_input_and_the_only_finding():
    m = measurements(**holds_up(12.0))

    found, diagnosis = finding(NAME, m), diagnose(m)
    assert (diagnosis.verdict.state, diagnosis.verdict.stage, diagnosis.verdict.rule) == ("bottleneck", "preprocess", NAME)
    assert found.claims == (HELD_UP,)
    assert values(found)["most of it in"] == "decode (data.py:90)"
    # A batch is received from a worker, and two of these make them as fast as they are needed.
    assert found.gain.predicted == pytest.approx(24.2 / 13.2, rel=0.01)
    assert answer_of(GIL, m) is None


def test_where_processes_find_no_core_less_work_is_advised_and_they_are_the_worst_case():
    many, one = (finding(NAME, measurements(**holds_up(12.0, cores=cores))) for cores in (8.0, 1.0))

    assert "num_workers" in many.fixes[0].text
    assert "num_workers" in one.fixes[1].text
    assert one.gain.predicted == pytest.approx(24.2 / 12.2, rel=0.01)
    assert one.gain.steady_low is not None
    assert one.gain.steady_low < 1.0


@pytest.mark.parametrize(
    "measured", [holds_up(12.0, is_taken=False), holds_up(12.0, more_cores=0.8)], ids=["not taken", "another computes more"]
)
def test_a_thread_that_is_not_seen_to_make_the_input_stays_what_it_is(measured):
    m = measurements(**measured)

    assert answer_of(NAME, m) is None
    assert finding(GIL, m).stage == "compute"


def test_a_thread_that_keeps_up_is_left_alone():
    assert answer_of(NAME, measurements(**waits(0.3))) is None
