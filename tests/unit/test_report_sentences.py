"""Clauses of rules as sentences: a capital begins them, and names stay as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_findings import claiming
from slowstep.analyses.events.parts import INPUT_WAIT
from slowstep.diagnosis.law import open_by_fault
from slowstep.document.build import verdict_row
from slowstep.document.rows import finding_row
from slowstep.faults import Fault
from slowstep.findings import Verdict
from slowstep.reason_words import opens_with_name, sentence
from slowstep.reasons import OWN_WORDS, SAID, Wording
from slowstep.report.sentences import as_advice, as_title


@pytest.mark.parametrize(
    ("clause", "opens_with_name", "sentence"),
    [
        ("the training thread makes its batches itself", False, "The training thread makes its batches itself"),
        ("plot (train.py:4) runs after every step", True, "plot (train.py:4) runs after every step"),
        ("36 % of the time is transport", False, "36 % of the time is transport"),
        ("", False, ""),
    ],
)
def test_a_title_begins_with_a_capital_unless_it_begins_with_a_name(clause, opens_with_name, sentence):
    assert as_title(clause, opens_with_name=opens_with_name) == sentence


NAMED = Wording("named", "{name} is slow")
SHARED = Wording("shared", "{share:share} is slow")
AROUND = Wording("around", "{inner}, and more")


@pytest.mark.parametrize(
    ("reason", "does"),
    [
        (Wording("plain", "nothing is known of {name}")(name="plot"), False),
        (NAMED(name="plot"), True),
        (SHARED(share=0.5), False),
        (AROUND(inner=NAMED(name="plot")), True),
        (AROUND(inner=SHARED(share=0.5)), False),
        (SAID(said="it broke"), True),
        (AROUND(inner=OWN_WORDS(words="the loader waits")), False),
    ],
)
def test_whether_a_reason_begins_with_a_name_is_known_by_its_template(reason, does):
    assert opens_with_name(reason) is does


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        ("call plot every k steps", "Call plot every k steps"),
        ("vectorise, or use a faster library", "Vectorise, or use a faster library"),
        ("torch.compile(model)", "torch.compile(model)"),
        ("num_workers=0 may gain", "num_workers=0 may gain"),
        ("model = torch.compile(model)", "model = torch.compile(model)"),
        ("gc.disable() before the loop", "gc.disable() before the loop"),
    ],
)
def test_advice_begins_with_a_capital_unless_it_begins_with_code(clause, sentence):
    assert as_advice(clause) == sentence


def test_a_verdict_that_a_fault_leaves_open_is_a_sentence_below_its_state():
    verdict = open_by_fault("compute", Fault("find_saves", ValueError("no column")))

    said = as_title(sentence(verdict.reason), opens_with_name=opens_with_name(verdict.reason))

    assert said == "An internal error in find_saves (ValueError: no column) may hide what slows the training"


@pytest.mark.parametrize("does", [False, True])
def test_an_answer_that_is_a_findings_title_begins_as_that_does(does):
    finding = replace(claiming(INPUT_WAIT, rule="input-wait", stage="preprocess"), opens_with_name=does)
    verdict = Verdict(state="bottleneck", stage="preprocess", healthy=False, rule="input-wait", reason=None)

    assert verdict_row(verdict, (finding,))["opens_with_name"] is does
    assert finding_row(finding)["opens_with_name"] is does
