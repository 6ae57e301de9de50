"""Python threads of the script's own that compute beside the training: what they may hold up is a part of its own, and never healthy."""

from __future__ import annotations

from typing import Any

import pytest

from judged import answer_of, finding, values
from made_measurements import DATA, fed, measurements, merged
from slowstep.analyses.python.concurrent_threads import ConcurrentThread
from slowstep.diagnosis.engine import diagnose
from slowstep.findings import NotJudged
from slowstep.parts import Part, PartKind
from slowstep.timeline.timeline import Frame

NAME = "gil-contention"
HELD_UP = Part("compute", PartKind.HELD_UP)
DECODE = Frame(file=DATA, function="decode", first_line=90, line=92)


def held_up(cores: float, ms: float) -> dict[str, Any]:
    """Bodies that are blocked for so long in each step while another thread computes."""
    thread = ConcurrentThread(name="prefetch", thread=101, cores=cores, function=DECODE)
    return {"ledger": {HELD_UP: ms}, "concurrent_threads": {"threads": (thread,)}}


def test_a_thread_that_computes_while_bodies_are_blocked_is_named_and_not_healthy():
    m = measurements(**held_up(0.6, 8.0))

    found = finding(NAME, m)
    assert (found.stage, found.claims, found.gain.predicted) == ("compute", (HELD_UP,), None)
    assert values(found)["gain at most"] == pytest.approx(27.5 / 19.5)
    assert found.fixes[1].lever == "stub=data:decode"
    assert diagnose(m).verdict.state == "undetermined"


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
