"""A function that holds the making of samples, the data set's own method among them: when it is blamed, and for what.

Which function that is, and whether it is a loop in Python: tests/unit/analyses/input/test_fetch_function.py and test_python_share.py.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from judged import answer_of, code_of, finding, judged, named, values
from made_measurements import DATA, MS, fed, measurements, merged
from slowstep.analyses.input.input_facts import InputFunction
from slowstep.analyses.python.calls import TimedFunction
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.input.input_side import WARMED_EXPECTED
from slowstep.diagnosis.rule import Judged

NAME = "slow-transform"
Measured = dict[str, Any]


def holds(name: str = "augment", *, share: float = 0.8, python: float | None = None, **more: Any) -> Measured:
    """The function that holds most of the making, and how much of it is a loop in Python."""
    own = "__getitem__"
    path = (own,) if name == own else (own, name)
    return {"fetch_function": TimedFunction(name=name, file=DATA, line=40, share=share, path=path, python_share=python, **more)}


ITEM = holds("__getitem__", share=1.0, python=0.9)
# Two threads of the training's own fill both cores.
CROWDED: Measured = {"cores": 2.0, "spinning_cores": 0.9}


def crowded(*more: Measured, workers: int = 0, cpu_ms: float = 13.0, **changes: Any) -> Measured:
    made = fed(workers, cpu_ms=cpu_ms, **{**CROWDED, **changes})
    for each in more:
        made = merged(made, each)
    return made


def test_a_loop_is_named_with_what_faster_code_gains_where_workers_find_no_cores():
    m = measurements(**crowded(ITEM))

    diagnosis = diagnose(m)
    assert diagnosis.verdict.rule == NAME, diagnosis.verdict.reason
    assert diagnosis.findings[0].also == ("serial-loader",)
    assert values(diagnosis.findings[0])["a loop in Python"] == pytest.approx(0.9)
    assert diagnosis.findings[0].gain.predicted == pytest.approx(32.0 / (32.0 - 0.95 * 13.0), rel=0.05)


@pytest.mark.parametrize("python", [None, 0.1], ids=["not counted", "an operation"])
def test_the_data_sets_method_is_not_blamed_where_it_is_not_known_to_be_a_loop(python):
    m = measurements(**crowded(holds("__getitem__", share=1.0, python=python)))

    assert answer_of(NAME, m) is None
    verdict = diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("undetermined", None)


@pytest.mark.parametrize(
    ("measured", "with_workers"),
    [
        (crowded(ITEM, cpu_ms=70.5, spinning_cores=0.0), True),
        (crowded(ITEM), False),
        (crowded(ITEM, workers=2, cpu_ms=70.5, spinning_cores=0.0), False),
    ],
    ids=["an idle core", "full by the training's threads", "full by workers"],
)
def test_workers_are_advised_too_only_where_a_core_is_idle(measured, with_workers):
    found = finding(NAME, measurements(**measured))

    assert any((fix.lever or "").startswith("workers=") for fix in found.fixes) is with_workers


def beside(spinning: float = 0.0, *, cpu_ms: float = 28.5, cores: float = 2.0, **more: Any) -> Measured:
    """A worker and the training on two cores, each of which the other's work keeps waiting."""
    made = fed(1, cpu_ms=cpu_ms, queued_ms=4.0, delay_ms=8.0, cores=cores, spinning_cores=spinning, **more)
    return merged(made, holds())


def test_what_no_number_of_workers_hides_on_cores_that_are_shared_already_is_named():
    m = measurements(**beside(0.3))

    found = finding(NAME, m)
    bound = next(row for row in found.evidence if row.name == "shortest step on these cores")
    assert values(found)["function"] == "augment"
    assert bound.value > bound.threshold
    assert "too-few-workers" not in named(m)


@pytest.mark.parametrize(
    "measured",
    [beside(), beside(0.3, cores=16.0), beside(foreign_cores=0.6), beside(0.3, cpu_ms=20.0)],
    ids=["one core", "idle cores", "cores that others use", "a worker that keeps up"],
)
def test_a_function_is_left_to_workers_that_find_cores_and_to_those_that_keep_up(measured):
    assert answer_of(NAME, measurements(**measured)) is None


def test_a_loop_that_workers_hide_is_left_to_these():
    assert named(measurements(**merged(fed(0, cpu_ms=13.0, cores=16.0), ITEM)))[:1] == ["serial-loader"]


@pytest.mark.parametrize("python", [0.9, 0.1, None], ids=["a loop", "an operation", "not counted"])
def test_a_function_below_the_data_sets_method_is_named_whatever_it_does(python):
    assert diagnose(measurements(**crowded(holds(python=python)))).findings[0].rule == NAME


def test_what_is_advised_fits_what_the_function_is():
    loop, operation, library, several = (
        finding(NAME, measurements(**crowded(function))).fixes[0].text
        for function in (
            holds(python=0.9),
            holds(python=0.1),
            holds("Compose.__call__", of_library=True),
            holds("Compose.__call__", of_library=True, parts=(("ToTensor.__call__", 0.4), ("Normalize.forward", 0.2))),
        )
    )

    assert len({loop, operation, library, several}) == 4
    assert all(name in several for name in ("ToTensor.__call__", "Normalize.forward"))


def test_the_parts_of_a_library_s_transform_are_shown():
    parts = (("ToTensor.__call__", 0.4), ("Normalize.forward", 0.2))

    found = finding(NAME, measurements(**crowded(holds("Compose.__call__", of_library=True, parts=parts))))

    assert [row.value for row in found.evidence if row.name == "in it"] == [name for name, _ in parts]


def short(python: float | None, **changes: Any) -> Measured:
    """Steps of 3.3 ms, of which the training thread makes a batch for 0.9: receiving one from a worker takes as long."""
    made = fed(0, cpu_ms=0.9, body_ms=2.4, demand={"collate_ns": 0.05 * MS}, **changes)
    return merged(made, holds(python=python))


def test_a_loop_that_workers_hide_at_no_profit_is_named():
    m = measurements(**short(0.9))

    assert diagnose(m).verdict.rule == NAME
    assert "receiving a batch instead" in values(finding(NAME, m))


def test_at_worse_a_sample_still_takes_what_a_few_operations_take():
    answer = judged(NAME, measurements(**short(0.9)))

    assert answer.counterfactual is not None
    expected, pessimistic = (float(case.removed_ns.mean()) for case in (answer.counterfactual.expected, answer.counterfactual.pessimistic))
    # Of 0.68 ms a twentieth is left, and 15 us for each of the 16 samples; what is spared lets the training's own work be shorter, too.
    held_ns = 0.8 * 0.85e6
    assert expected == pytest.approx((1 + WARMED_EXPECTED.share) * 0.95 * held_ns, rel=0.02)
    assert pessimistic == pytest.approx(held_ns - 16 * 15e3, rel=0.02)


def test_a_small_operation_that_workers_hide_at_no_profit_is_not_blamed():
    assert answer_of(NAME, measurements(**short(0.1))) is None
    assert code_of(NAME, measurements(**short(None))) == "loop-not-seen"


def test_a_loop_that_workers_take_most_of_is_left_to_these():
    m = measurements(**merged(fed(0, cpu_ms=6.0, body_ms=9.8, cores=16.0), holds(python=0.9)))

    assert named(m)[:1] == ["serial-loader"]
    assert answer_of(NAME, m) is None


def asks_for_rows(share: float, file: str = "/usr/lib/python3/site-packages/pandas/core/indexing.py") -> Measured:
    """That so much of the making is asking a table for single rows by their labels, for which one function calls another."""
    called = (("_LocationIndexer.__getitem__", file), ("NDFrame.xs", file.replace("indexing", "generic")))
    rows = tuple(
        InputFunction(name=name, file=at, line=1180, calls_per_sample=1.0, share=share, caller=None, is_users=False) for name, at in called
    )
    return {"input": {"functions": rows}}


@pytest.mark.parametrize("name", ["__getitem__", "crop"], ids=["the data set's own method", "a function that it calls"])
@pytest.mark.parametrize(
    ("asked", "is_blamed"),
    [(asks_for_rows(0.5), True), (asks_for_rows(0.3), False), (asks_for_rows(0.5, DATA), False)],
    ids=["most of it", "a little of it", "a function of that name"],
)
def test_single_rows_of_a_table_are_work_that_arrays_do_not_do(name, asked, is_blamed):
    # A worker's batches would take most of what they take off the training thread to be received.
    own = holds(name, share=0.8, python=0.0)

    answer = answer_of(NAME, measurements(**merged(merged(fed(0, cpu_ms=1.9, cores=8.0), own), asked)))

    assert isinstance(answer, Judged) is is_blamed


def test_a_library_that_holds_most_of_it_is_named():
    own = holds("__getitem__", share=1.0, python=0.1, into=(("Image.resize (PIL)", 0.7),))

    assert "Image.resize (PIL)" in finding("serial-loader", measurements(**merged(fed(0, cpu_ms=13.0, cores=16.0), own))).fixes[1].text


def test_of_the_making_itself_nothing_is_said_where_nothing_more_is_known():
    m = measurements(**merged(fed(0, cpu_ms=13.0, cores=16.0), holds("__getitem__", share=1.0, python=0.1)))

    assert len(finding("serial-loader", m).fixes) == 1


def test_workers_are_not_the_only_answer_where_a_function_is_known():
    m = measurements(**merged(fed(0, cpu_ms=13.0, cores=16.0), holds(python=0.1)))

    workers, other = finding("serial-loader", m).fixes
    assert (workers.lever, other.bounded_by) == ("workers=1", "stub=data:augment")
    step_ms, at_most = float(m.step_ns.mean()) / 1e6, re.search(r"([\d.]+)x if that cost nothing", other.text)
    assert at_most is not None
    assert float(at_most[1]) == pytest.approx(step_ms / (step_ms - 0.8 * 13), rel=0.05)
