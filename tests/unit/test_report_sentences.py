"""Clauses of rules as sentences: a capital begins them, and names stay as they are."""

from __future__ import annotations

import pytest

from slowstep.diagnosis.law import open_by_fault
from slowstep.faults import Fault
from slowstep.reason_words import sentence
from slowstep.report.sentences import as_advice, as_title


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        ("the training thread makes its batches itself", "The training thread makes its batches itself"),
        ("no single finding would gain 10 %", "No single finding would gain 10 %"),
        ("plot (train.py:4) runs after every step", "plot (train.py:4) runs after every step"),
        ("steps (train.py:4) takes 10 % of the time", "steps (train.py:4) takes 10 % of the time"),
        ("conv holds 60 % of the time", "conv holds 60 % of the time"),
        ("small-batch could not be judged", "small-batch could not be judged"),
        ("how long this rank waits was not measured", "How long this rank waits was not measured"),
        ("36 % of the time is transport", "36 % of the time is transport"),
        ("", ""),
    ],
)
def test_a_title_begins_with_a_capital_unless_it_begins_with_a_name(clause, sentence):
    assert as_title(clause) == sentence


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

    said = as_title(sentence(verdict.reason))

    assert said == "An internal error in find_saves (ValueError: no column) may hide what slows the training"
