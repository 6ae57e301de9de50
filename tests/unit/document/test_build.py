"""A report is built once, of sections: each of them has its place in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.tried import Tried
from slowstep.document.build import build
from slowstep.document.ledger_rows import unseen_row
from slowstep.document.next_step import NextStep
from slowstep.document.sections import ExperimentSection, RankSection, Sections
from slowstep.document.throughput_rows import NO_THROUGHPUT
from slowstep.document.validity import faults
from slowstep.findings import Evidence, Finding, Fix, Gain, MeasuredGain, Verdict
from slowstep.parts import Part, PartKind
from slowstep.reasons import Wording
from slowstep.stages import STAGES, UNATTRIBUTED

WORTH_NOTHING = Wording("nothing-found", "nothing worth 10 % was found")
HEALTHY = Verdict(state="healthy", stage="compute", healthy=True, rule=None, reason=WORTH_NOTHING())
PRINTING = Part("output", PartKind.FUNCTION, "print")
FINDING = Finding(
    rule="chatty-logging",
    stage="output",
    title="the script prints in every step",
    share=0.05,
    share_low=0.04,
    share_high=0.06,
    claims=(PRINTING,),
    evidence=(Evidence(name="printing", value=0.05, unit="share of window", threshold=0.03),),
    gain=Gain(predicted=1.05, low=1.04, high=1.06, assumes="nothing is printed"),
    fixes=(Fix(text="print once in 50 steps"),),
)
RUN: dict[str, Any] = dict.fromkeys(
    ("framework", "step_boundary", "batch_size", "batch_size_from", "device", "started", "duration_s", "startup_s", "warmup_steps")
) | {"name": "train", "command": ["train.py"], "ranks": 1, "steps": 100}


@pytest.fixture
def sections() -> Sections:
    return Sections(
        run=RUN | {"notes": ["its own"]},  # type: ignore[arg-type]
        throughput=NO_THROUGHPUT,
        ledger=[unseen_row(stage) for stage in (*STAGES, UNATTRIBUTED)],
        diagnosis=Diagnosis(findings=(FINDING,), not_judged=(), verdict=HEALTHY, next=None),
        health=(row("own"),),
        overhead={"us_per_step": None, "share": None},
    )


def row(name: str) -> Any:
    return {"name": name, "severity": "notice", "count": 1, "remedy": "look again"}


def an_experiment(**changes: Any) -> ExperimentSection:
    sandbox = {"kind": "overlay", "claims": "no file changed", "warnings": [], "write_ratio": None}
    facts: Any = dict.fromkeys(("seed", "steps_per_block", "reached", "took_s", "exit_code", "trustworthy", "distrust", "foreign_share"))
    facts |= {"precision": 0.05, "budget_s": 60.0, "ended_by": "budget", "sandbox": sandbox}
    return ExperimentSection(**({"facts": facts, "rows": (), "tried": Tried(), "health": (row("tried"),)} | changes))


def test_a_training_alone_has_a_valid_report_of_its_own_sections(sections):
    report = build(sections)

    assert faults(report) == []
    assert report["run"]["notes"] == ["its own"]
    assert [each["rule"] for each in report["findings"]] == ["chatty-logging"]
    assert "next_command" not in report["run"]
    assert "bench" not in report


def test_what_is_known_of_ranks_stands_beside_a_trainings_own(sections):
    ranks = RankSection(run={"ranks": 2}, notes=("of the others",), health=(row("missing-ranks"),))

    report = build(sections, ranks=ranks, more_health=[row("internal-error")])

    assert faults(report) == []
    assert report["run"]["ranks"] == 2
    assert report["run"]["notes"] == ["its own", "of the others"]
    assert [each["name"] for each in report["health"]] == ["own", "missing-ranks", "internal-error"]


def test_what_an_experiment_showed_stands_beside_what_was_diagnosed(sections):
    report = build(sections, experiment=an_experiment())

    assert faults(report) == []
    assert report["run"]["experiment"]["ended_by"] == "budget"
    assert [each["name"] for each in report["health"]] == ["own", "tried"]
    assert report["findings"][0]["gain"]["measured"] is None


def test_the_next_step_is_a_command_and_what_is_to_be_done_before(sections):
    report = build(sections, next_step=NextStep(command="slowstep run train.py", first="let it train longer"))

    assert (report["run"]["next_command"], report["run"]["before_next"]) == ("slowstep run train.py", "let it train longer")
    assert "next_in_python" not in report["run"]


def test_a_measured_gain_stands_beside_the_predicted_one(sections):
    gain = replace(FINDING.gain, measured=MeasuredGain(value=1.2, low=1.1, high=1.3))
    sections = replace(sections, diagnosis=replace(sections.diagnosis, findings=(replace(FINDING, gain=gain),)))

    report = build(sections)

    assert faults(report) == []
    assert report["findings"][0]["gain"]["measured"] == {"value": 1.2, "low": 1.1, "high": 1.3}
    assert report["findings"][0]["gain"]["predicted"] == 1.05


def test_sections_are_as_they_were_when_a_report_was_built_of_them(sections):
    first = build(sections, ranks=RankSection(run={"ranks": 2}, notes=("of the others",)), experiment=an_experiment())
    second = build(sections)

    assert (first["run"]["ranks"], "experiment" in first["run"]) == (2, True)
    assert (second["run"]["ranks"], "experiment" in second["run"]) == (1, False)
    assert second["run"]["notes"] == ["its own"]
