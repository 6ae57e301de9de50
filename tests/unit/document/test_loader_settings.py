"""The section on the loader's settings: what they are, which are at their default, and what the rules said of each."""

from __future__ import annotations

from typing import Any

import pytest

from made_answers import judged
from made_measured_traces import made_measured
from made_measurements import measurements
from slowstep.diagnosis.engine import rules
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.loader_settings import RULES_OF, loader_settings
from slowstep.document.validity import validate
from slowstep.findings import NotJudged, Verdict
from slowstep.frameworks._known import all_words
from slowstep.reasons import SAID
from slowstep.report.terminal import render

VERDICT = Verdict(state="undetermined", stage=None, healthy=None, rule=None, reason=SAID(said="-"))


def diagnosed(*found: str, also: tuple[str, ...] = (), open_rule: str | None = None) -> Diagnosis:
    not_judged = () if open_rule is None else (NotJudged(rule=open_rule, reason=SAID(said="-")),)
    findings = tuple(judged(rule, 1.5, also=also).finding for rule in found)
    return Diagnosis(findings=findings, not_judged=not_judged, verdict=VERDICT, next=None)


def made(*, workers: int = 2, framework: str | None = None, device: str = "cuda", **loader: Any) -> Any:
    words = {} if framework is None else {"words": all_words()[framework]}
    settings = {"persistent": False, "pin_memory": False, "batch_size": 32, **loader}
    return measurements(workers=workers, input={"loader": settings}, compute={"device": device}, **words)


def told(m: Any, diagnosis: Diagnosis) -> dict[str, tuple[Any, ...]]:
    return {row["setting"]: (row["value"], row["default"], row["said"], row["rule"]) for row in loader_settings(m, diagnosis) or []}


def test_each_setting_stands_beside_what_a_rule_found_of_it() -> None:
    diagnosis = diagnosed("too-few-workers", also=("worker-restart",), open_rule="small-batch")

    assert told(made(), diagnosis) == {
        "num_workers": (2, False, "finding", "too-few-workers"),
        "prefetch_factor": (2, True, "nothing to gain", None),
        "persistent_workers": (False, True, "finding", "too-few-workers"),
        "pin_memory": (False, True, "nothing to gain", None),
        "batch_size": (32, False, "not judged", None),
    }


def test_what_does_nothing_here_is_no_setting_at_its_default() -> None:
    found = told(made(workers=0, device="cpu", prefetch_factor=None), diagnosed("serial-loader"))

    assert found == {
        "num_workers": (0, True, "finding", "serial-loader"),
        "prefetch_factor": (None, None, "without effect", None),
        "persistent_workers": (False, None, "without effect", None),
        "pin_memory": (False, None, "without effect", None),
        "batch_size": (32, False, "nothing to gain", None),
    }


def test_a_trainer_has_names_and_defaults_of_its_own() -> None:
    found = told(made(framework="transformers", batch_size=8), diagnosed())

    assert {name: row[:2] for name, row in found.items()} == {
        "dataloader_num_workers": (2, False),
        "dataloader_prefetch_factor": (2, True),
        "dataloader_persistent_workers": (False, True),
        "dataloader_pin_memory": (False, False),
        "per_device_train_batch_size": (8, True),
    }


def test_without_a_loader_that_has_such_settings_there_is_none() -> None:
    assert loader_settings(measurements(workers=None), diagnosed()) is None
    assert loader_settings(made(is_marked=True), diagnosed()) is None
    assert loader_settings(made(framework="keras"), diagnosed()) is None
    assert loader_settings(made_measured(), diagnosed()) is None


def test_the_rules_of_each_are_rules() -> None:
    assert frozenset().union(*RULES_OF.values()) <= rules().keys()


@pytest.mark.parametrize("verbose", [True, False])
def test_all_of_it_is_shown_where_all_is_asked_for(bottleneck: dict[str, Any], verbose: bool) -> None:
    bottleneck["loader_settings"] = loader_settings(made(), diagnosed("too-few-workers"))
    validate(bottleneck)

    page = " ".join(render(bottleneck, width=100, color=False, verbose=verbose).split())

    assert ("num_workers: 2; too-few-workers, 30 % of the time pre" in page) == verbose
    assert ("pin_memory: False, the default; nothing to gain" in page) == verbose
    assert ("the loader's settings" in page) != verbose
