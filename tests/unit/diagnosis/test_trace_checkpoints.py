"""Checkpoints in a trace: named writes, judged by the rule that judges them in a run."""

from __future__ import annotations

from typing import Any

import pytest

from judged_traces import evidence, finding, judged
from made_measured_traces import gaps_of, made_measured
from made_parts import span_part
from slowstep.analyses.events.parts import FORWARD
from slowstep.analyses.replay.scenarios import NO_WORK_BETWEEN_STEPS, NO_WRITES
from slowstep.diagnosis.engine import diagnose

SAVING = span_part("store", "save_checkpoint")


def on_a_processor(ms: float | list[float]) -> Any:
    return made_measured(has_device=False, ledger={SAVING: ms}, rest=FORWARD)


def test_a_named_write_is_a_blocking_checkpoint_and_its_gain_is_the_rest() -> None:
    diagnosis = diagnose(on_a_processor(70.0))

    assert (diagnosis.verdict.state, diagnosis.verdict.rule) == ("bottleneck", "blocking-checkpoint")
    found = diagnosis.findings[0]
    assert (found.stage, found.claims) == ("store", (SAVING,))
    assert found.gain.predicted == pytest.approx(100 / 30)
    assert found.fixes[0].lever is not None
    assert evidence(found, "steps with it").value == 10


def test_a_write_in_one_step_of_ten_is_uncertain() -> None:
    diagnosis = diagnose(on_a_processor([0.0] * 9 + [60.0]))

    assert diagnosis.findings == ()
    assert diagnosis.verdict.state != "bottleneck"


@pytest.mark.parametrize("m", [on_a_processor(2.0), made_measured(), on_a_processor([0.0] * 10)], ids=["short", "device", "none"])
def test_short_writes_and_none_are_no_finding(m) -> None:
    assert judged("blocking-checkpoint", m) is None


@pytest.mark.parametrize("between", [True, False])
def test_with_a_device_writes_are_judged_wherever_they_are_and_lead_over_the_gap_that_they_make(between) -> None:
    gaps = gaps_of(30.0, stage="store", part=SAVING, call="save_checkpoint", between_steps=between)
    m = made_measured(tables={"gaps": gaps}, replay={NO_WRITES: 70.0, NO_WORK_BETWEEN_STEPS: 65.0})

    assert finding("blocking-checkpoint", m).gain.predicted == pytest.approx(100 / 70)
    led = diagnose(m).findings
    assert [(one.rule, one.also) for one in led] == [("blocking-checkpoint", ("gaps-between-steps",) if between else ())]
