"""Steps whose calls could not be timed, as beside compiled code: what may run there unseen leaves rules unjudged and the verdict open."""

from __future__ import annotations

import pytest

from made_measurements import measurements
from slowstep.analyses.compute.untimed import Untimed
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import Diagnosis, diagnose
from slowstep.record.writing.format import UNTIMED_COMPILED, UNTIMED_THREADS

RULES = {"beside-the-model", "python-between-operations"}


def untimed(at_most: float, *, why: str = UNTIMED_COMPILED, device: str = "cpu") -> Measurements:
    """Of 120 stacks in steps so many in the script's own code that it may hold so much of the time."""
    found = Untimed(why=(why,), stacks=round(100 * at_most), of=120, at_most=at_most, most="make_mask (train.py:50)")
    return measurements(untimed=found, bodies_timed=0, device=device)


def _unjudged(diagnosis: Diagnosis) -> set[str]:
    return {row.rule for row in diagnosis.not_judged if row.reason.code == "untimed"}


@pytest.mark.parametrize("why", [UNTIMED_COMPILED, UNTIMED_THREADS])
def test_the_scripts_own_python_that_was_not_timed_is_not_called_healthy(why):
    diagnosis = diagnose(untimed(0.4, why=why))

    assert _unjudged(diagnosis) == RULES
    assert (diagnosis.verdict.state, diagnosis.verdict.reason.code) == ("undetermined", "rule-not-judged")
    untold = next(row.reason for row in diagnosis.not_judged if row.reason.code == "untimed")
    assert (untold.values["at_most"], untold.values["stacks"], untold.values["of"]) == (0.4, 40, 120)
    assert untold.values["most"].values["line"] == "make_mask (train.py:50)"


def test_what_keeps_calls_from_being_timed_decides_what_is_advised():
    compiled, threads = (diagnose(untimed(0.4, why=why)).not_judged[0].reason for why in (UNTIMED_COMPILED, UNTIMED_THREADS))

    assert compiled.values["beside"] != threads.values["beside"]
    assert compiled.values["remedy"] != threads.values["remedy"]


@pytest.mark.parametrize(
    "m", [measurements(), untimed(0.09), untimed(0.4, device="cuda")], ids=["timed", "little time", "an accelerator works meanwhile"]
)
def test_where_little_may_be_unseen_nothing_is_open(m):
    assert not _unjudged(diagnose(m))
