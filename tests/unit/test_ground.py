"""Errors, stages, health and findings."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from slowstep import errors, findings, stages
from slowstep.findings import Evidence, Finding, Fix, Gain
from slowstep.health import SEVERITIES, HealthKind, Severity
from slowstep.reason_words import sentence

GAIN = Gain(predicted=1.8, low=1.6, high=2.0, assumes="two workers")


def finding(**changes):
    parts = {"evidence": (Evidence(name="wait", value=41.0, unit="ms"),), "fixes": (Fix(text="num_workers=2"),)}
    known = {"rule": "serial-loader", "stage": "preprocess", "title": "It waits", "share": 0.4, "share_low": 0.35, "share_high": 0.45}
    return Finding(**{**known, "claims": ("collate",), "gain": GAIN, **parts, **changes})


def test_a_finding_without_evidence_cannot_be_built():
    with pytest.raises(ValueError, match="'serial-loader' has no evidence"):
        finding(evidence=())


def test_a_finding_without_a_fix_cannot_be_built():
    with pytest.raises(ValueError, match="'serial-loader' has no fix"):
        finding(fixes=())


@pytest.mark.parametrize("text", ["", " "])
def test_a_fix_without_a_text_cannot_be_built(text):
    with pytest.raises(ValueError, match="a fix has no text"):
        Fix(text=text)


def test_findings_are_values():
    assert finding() == finding()
    assert dataclasses.replace(finding(), also=("slow-collate",)).also == ("slow-collate",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        finding().rule = "other"


@pytest.mark.parametrize("name", ["Evidence", "MeasuredGain", "Gain", "Fix", "Finding", "NotJudged", "Verdict"])
def test_every_part_of_a_diagnosis_is_frozen_and_keyword_only(name):
    kind = getattr(findings, name)

    assert kind.__dataclass_params__.frozen
    assert all(field.kw_only for field in dataclasses.fields(kind))


def test_the_stages_are_the_eight_in_the_order_of_a_step():
    assert stages.STAGES == ("read", "preprocess", "h2d", "compute", "gradient_sharing", "d2h", "output", "store")
    assert get_args(stages.Stage) == stages.STAGES


def test_every_stage_and_the_rest_have_a_meaning():
    assert list(stages.STAGE_MEANING) == [*stages.STAGES, stages.UNATTRIBUTED]


def test_a_health_record_counts_something():
    torn = HealthKind("torn-record", "data_loss", "none")

    assert (torn(1).name, torn(1).severity, torn(1).count) == ("torn-record", "data_loss", 1)
    with pytest.raises(ValueError, match="count 0"):
        torn(0)


def test_a_health_record_has_a_name_and_a_known_severity():
    with pytest.raises(ValueError, match="needs a name"):
        HealthKind("", "info", "none")(1)
    with pytest.raises(ValueError, match=r"'bad'.*info, notice, data_loss, error"):
        HealthKind("torn-record", "bad", "none")(1)


def test_a_health_record_is_its_name_count_and_values():
    cut, rewritten = HealthKind("cut", "notice", "{missing:count row} of it"), HealthKind("cut", "notice", "less {missing:,} rows")

    assert cut(2, missing=3) == rewritten(2, missing=3)
    assert cut(2, missing=3) != cut(2, missing=4)
    assert sentence(cut(2, missing=3).remedy) == "3 rows of it"
    with pytest.raises(TypeError, match="'cut' lacks missing"):
        cut(2)


def test_severities_are_ordered_as_declared():
    assert get_args(Severity) == SEVERITIES


def test_every_error_of_slowstep_is_in_one_tree_and_ends_with_2_unless_a_command_did_not_start():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]

    assert all(issubclass(kind, errors.SlowstepError) for kind in kinds)
    assert {kind.__name__: kind("why").exit_code for kind in kinds if kind("why").exit_code != 2} == {"CommandNotStarted": 125}


@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_command_that_did_not_start_says_how(code):
    assert errors.CommandNotStarted("why", exit_code=code).exit_code == code


def test_the_tree_on_top_of_the_file_names_every_error():
    names = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)]

    assert [name for name in names if name not in (errors.__doc__ or "")] == []
