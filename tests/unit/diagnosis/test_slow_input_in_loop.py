"""A function that makes batches in a loop without a loader, of which workers would take little off it.

What is known of such a function: tests/unit/analyses/test_loop_maker.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judged import answer_of, code_of, finding, named, values
from made_measurements import SCRIPT, loop_fed, measurements
from made_parts import function_part
from slowstep.analyses.input.loop_input import Maker
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rule import Judged

NAME = "slow-transform"
MADE = function_part("preprocess", "make", "train.py", 60)


def makes(making_ms: float, python: float | None, *, body_ms: float = 1.74, **more: Any) -> dict[str, Any]:
    """A loop whose function makes a batch for so long, a share of it in a loop in Python."""
    made = loop_fed(making_ms, part=MADE, body_ms=body_ms, **more)
    maker = Maker(file=SCRIPT, inner=None, python_share=python)
    return {**made, "loop_input": replace(made["loop_input"], maker=maker)}


# A step of 2.94 ms, of which the loop makes a batch for 1.2 ms: receiving one takes about as long.
SHORT, LONG = {"making_ms": 1.2}, {"making_ms": 12.0, "body_ms": 13.0}


def test_a_loop_in_python_is_named_with_what_faster_code_gains():
    m = measurements(**makes(**SHORT, python=0.95))

    found = finding(NAME, m)
    assert diagnose(m).verdict.rule == NAME
    assert found.claims[0] == MADE
    assert found.gain.predicted == pytest.approx(2.94 / (2.94 - 0.95 * 1.2), rel=0.05)
    assert found.gain.low > 1.03
    assert values(found)["a loop in Python"] == pytest.approx(0.95)
    # In so many gaps, and not by stacks.
    assert (values(found)["timed in"], "stack samples in it" in values(found)) == (3, False)


def test_what_no_other_code_makes_faster_is_not_blamed():
    m = measurements(**makes(**SHORT, python=0.2))

    assert answer_of(NAME, m) is None
    assert diagnose(m).verdict.state != "bottleneck"


def test_faster_code_is_advised_first_where_it_gains_more_than_workers_that_would_take_most_of_it():
    found = diagnose(measurements(**makes(**LONG, python=0.95))).findings[0]

    assert (found.rule, found.also) == (NAME, ("serial-loader",))


@pytest.mark.parametrize("python", [None, 0.0], ids=["nothing counted", "one operation"])
def test_workers_are_advised_for_what_is_no_loop_in_python_or_not_known_to_be(python):
    m = measurements(**makes(**LONG, python=python))

    assert named(m)[:1] == ["serial-loader"]
    assert answer_of(NAME, m) is None


def test_without_counted_lines_it_is_not_judged_where_workers_take_little_of_it():
    assert code_of(NAME, measurements(**makes(**SHORT, python=None))) == "own-loop-not-seen"


def test_what_is_blocked_is_not_made_faster_by_other_code():
    assert not isinstance(answer_of(NAME, measurements(**makes(**LONG, python=0.95, blocked_ms=8.0))), Judged)
