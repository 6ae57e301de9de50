from __future__ import annotations

import copy
import math

import pytest

from slowstep.document.experiment_rows import ExperimentFacts, ExperimentRow
from slowstep.document.finding_rows import EvidenceRow, FindingRow, VerdictRow
from slowstep.document.ledger_rows import LedgerRow, PartRow
from slowstep.document.report import Report
from slowstep.document.run_rows import Run
from slowstep.document.throughput_rows import Overhead, Throughput
from slowstep.document.validity import faults, json_schema, validate
from slowstep.findings import EvidenceCode
from slowstep.parts import PartKind
from slowstep.prove.stats.verdicts import GainVerdict
from slowstep.report import json
from slowstep.stages import STAGES, UNATTRIBUTED

NAMES = ["bottleneck", "healthy", "undetermined", "unknown", "nothing", "proved"]


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_report_is_valid(sample_report, name):
    assert faults(sample_report(name)) == []


def test_the_schema_has_the_keys_of_the_types():
    schema = json_schema()
    kinds = {"run": Run, "throughput": Throughput, "verdict": VerdictRow, "overhead": Overhead}

    assert set(schema["properties"]) == set(Report.__annotations__)
    for key, kind in kinds.items():
        assert set(schema["properties"][key]["properties"]) == set(kind.__annotations__)
    assert set(schema["properties"]["findings"]["items"]["properties"]) == set(FindingRow.__annotations__)
    experiment, facts = schema["properties"]["experiments"]["items"], schema["properties"]["run"]["properties"]["experiment"]
    assert set(experiment["properties"]) == set(ExperimentRow.__annotations__)
    assert set(facts["properties"]) == set(ExperimentFacts.__annotations__)
    assert set(schema["$defs"]["row"]["properties"]) == set(LedgerRow.__annotations__)
    assert set(schema["$defs"]["part"]["properties"]) == set(PartRow.__annotations__)
    assert experiment["properties"]["verdict"]["enum"] == [*GainVerdict, None]
    assert schema["$defs"]["part"]["properties"]["kind"]["enum"] == [kind.value for kind in PartKind]
    evidence = schema["properties"]["findings"]["items"]["properties"]["evidence"]["items"]["properties"]
    assert set(evidence) == set(EvidenceRow.__annotations__)
    assert evidence["code"]["enum"] == [code.value for code in EvidenceCode]
    assert [item["allOf"][1]["properties"]["stage"]["const"] for item in schema["properties"]["ledger"]["prefixItems"]] == [
        *STAGES,
        UNATTRIBUTED,
    ]


def _without_a_key(report):
    del report["overhead"]


def _with_a_foreign_key(report):
    report["findings"][0]["confidence"] = 0.9


def _stages_out_of_order(report):
    report["ledger"][0], report["ledger"][1] = report["ledger"][1], report["ledger"][0]


def _a_stage_missing(report):
    report["ledger"].pop()


def _no_evidence(report):
    report["findings"][0]["evidence"] = []


def _shares_over_one(report):
    report["ledger"][3]["share"] += 0.01


def _parts_over_their_stage(report):
    report["ledger"][0]["parts"][0]["share"] += 0.01


def _a_bottleneck_called_healthy(report):
    report["verdict"]["healthy"] = True


def _a_bottleneck_without_a_rule(report):
    report["verdict"]["rule"] = None


def _a_count_of_nothing(report):
    report["health"][0]["count"] = 0


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_without_a_key, "'overhead' is a required property"),
        (_with_a_foreign_key, "confidence"),
        (_stages_out_of_order, "'read' was expected"),
        (_a_stage_missing, "ledger"),
        (_no_evidence, "evidence"),
        (_shares_over_one, "sum to 1.01"),
        (_parts_over_their_stage, "parts of read sum to"),
        (_a_bottleneck_called_healthy, "verdict"),
        (_a_bottleneck_without_a_rule, "verdict"),
        (_a_count_of_nothing, "count"),
    ],
)
def test_a_report_that_breaks_the_contract_is_refused(bottleneck, spoil, complaint):
    spoil(bottleneck)

    with pytest.raises(ValueError, match=complaint):
        validate(bottleneck)


def test_run_may_say_more_than_the_schema_knows(bottleneck):
    bottleneck["run"]["exit_code"] = 1

    assert faults(bottleneck) == []


def test_a_report_survives_its_way_through_a_file(bottleneck, tmp_path):
    before = copy.deepcopy(bottleneck)

    json.write(bottleneck, tmp_path / "report.json")

    assert bottleneck == before
    assert __import__("json").loads((tmp_path / "report.json").read_text()) == before


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_does_not_have_is_refused(bottleneck, value):
    bottleneck["overhead"]["share"] = value

    with pytest.raises(ValueError, match="not JSON compliant"):
        json.dumps(bottleneck)
