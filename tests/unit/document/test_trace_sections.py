"""The report of one trace: what it says of stages that the trace could not show, and of what recording it took."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_measured_traces import made_measured
from slowstep.analyses.events.parts import INPUT_WAIT
from slowstep.diagnosis.engine import diagnose
from slowstep.document.build import build
from slowstep.document.traced_run import traced_run
from slowstep.document.training import sections_of_training
from slowstep.faults import Attempts
from slowstep.report.terminal import render


def report(**given):
    m, attempt = made_measured(**given), Attempts()
    return build(sections_of_training(traced_run(Path("of a rank/trace.json"), m, attempt), m, diagnose(m), (), attempt))


def test_a_stage_that_the_trace_could_not_show_has_a_null_share_and_the_others_add_up():
    made = report()

    shares = {row["stage"]: row["share"] for row in made["ledger"]}
    assert (shares["read"], shares["preprocess"], shares["store"]) == (None, None, 0.0)
    assert sum(share for share in shares.values() if share is not None) == pytest.approx(1.0)
    assert "not measured: read, preprocess" in " ".join(render(made, width=80, color=False).split())


def test_a_wait_for_input_that_was_charged_is_shown():
    shares = {row["stage"]: row["share"] for row in report(ledger={INPUT_WAIT: 20.0})["ledger"]}

    assert shares["preprocess"] == pytest.approx(0.2)
    assert shares["read"] is None


def test_a_trace_without_steps_is_said_to_lie_in_the_window():
    assert any("90 % of the trace's time in the window" in note for note in report(steps=1, mark="window")["run"]["notes"])


@pytest.mark.parametrize(("recording", "said"), [((0.12, 0.24), True), ((0.02, 0.04), False), (None, False)])
def test_what_recording_took_is_said_where_it_matters(recording, said):
    (note, *_) = report(recording=recording)["run"]["notes"]
    assert ("some 12 % to 24 % of the host's time" in note) == said


@pytest.mark.parametrize(("steps", "provisional"), [(1, True), (2, False)])
def test_a_trace_of_too_few_steps_for_a_verdict_is_provisional_as_a_recording_is(steps, provisional):
    made = report(steps=steps)

    assert made["run"]["provisional"] is provisional
    assert ("(provisional)" in render(made, width=80, color=False)) is provisional
