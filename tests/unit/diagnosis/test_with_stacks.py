"""What a trace that does not name the user's function is to be recorded with: nothing that it was recorded with already."""

from __future__ import annotations

import pytest

from made_measured_traces import EVERYTHING, made_measured
from slowstep.diagnosis.evidence.profiled.not_shown import with_stacks

WITHOUT = EVERYTHING - {"stacks", "python"}


def said(*wheres, recorded=WITHOUT):
    return with_stacks(made_measured(recorded=recorded, facts={"framework": "pytorch"}), wheres)


def test_stacks_are_asked_for_where_there_are_none_and_a_function_is_unknown():
    assert said(None) == said() == " (to get its function, record with with_stack=True)"
    assert said("main (train.py:3)", None) == ""


@pytest.mark.parametrize("kind", ["stacks", "python"])
def test_what_is_recorded_already_is_not_asked_for(kind):
    assert said(None, recorded=WITHOUT | {kind}) == ""


def test_code_outside_of_functions_is_to_be_put_into_one():
    assert "outside of all functions of train.py: put it into one" in said("train.py", recorded=EVERYTHING)
    assert said("train.py", "main (train.py:3)", recorded=EVERYTHING) == ""
