"""A pipeline of the framework's own that keeps compiled calls waiting: named where it does, left to others where they know more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judged import answer_of, finding, values
from made_measurements import measurements, per_step
from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.diagnosis.engine import diagnose
from slowstep.frameworks._words import Words
from slowstep.parts import UNKNOWN, UPDATES, Part, PartKind
from slowstep.timeline.spine import Counted

NAME = "slow-pipeline"
WAIT = Part("preprocess", PartKind.INPUT_WAIT)


def trained(wait_ms: float, *, work_ms: float = 10.0, used: float = 1.0, counted: dict[str, Any] | None = None, **more: Any) -> Any:
    """Steps whose calls wait for so long, and compute; `used` cores are busy, of four."""
    work = CountedWork(
        waits=(Counted(start_ns=0, end_ns=1, count=1, total_ns=int(wait_ms * 1e6)),),
        waited_ns=np.asarray(per_step(wait_ms)),
        busy_ns=None,
        batches=1.0,
        num_workers=None,
        dataset="tf.data",
        is_asynchronous=False,
    )
    nothing = dict.fromkeys(measurements().ledger.parts, 0.0)
    return measurements(
        workers=None,
        ledger=nothing | {WAIT: wait_ms, UPDATES: work_ms} | more.pop("ledger", {}),
        counted=replace(work, **counted or {}),
        load={"tree_cores": used},
        **more,
    )


def test_a_pipeline_that_is_waited_for_is_named_with_what_a_ready_batch_gains():
    m = trained(30.0, used=0.5)

    found, verdict = finding(NAME, m), diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", NAME), verdict.reason
    assert found.gain.predicted == pytest.approx(4.0, rel=0.05)
    # With as much again of it a step takes half as long at worst.
    assert found.gain.low is not None
    assert found.gain.low == pytest.approx(2.0, rel=0.05)
    assert values(found)["of each step"] == pytest.approx(29.7)


def test_where_all_cores_compute_nothing_is_gained_by_more_of_it():
    found = finding(NAME, trained(30.0, used=3.4))

    assert found.gain.predicted == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("work_ms", [10.0, 1.0])
def test_a_pipeline_that_keeps_up_is_left_alone_however_short_the_step(work_ms):
    assert answer_of(NAME, trained(0.3, work_ms=work_ms)) is None


@pytest.mark.parametrize(
    "counted",
    [{"num_workers": 0}, {"waits": (), "hides_waits": True}, {"waits": (), "is_asynchronous": True}, {"is_asynchronous": True}],
    ids=["serial-loader judges it", "nobody counts its waits", "a loop of JAX", "calls go on while it waits"],
)
def test_one_that_serial_loader_judges_and_one_whose_waits_nobody_counts_are_left_to_others(counted):
    assert answer_of(NAME, trained(30.0, counted=counted)) is None


def test_of_calls_that_hide_their_waits_the_verdict_stays_open():
    m = trained(0.0, work_ms=0.0, counted={"hides_waits": True}, ledger={UNKNOWN: 10.0})

    verdict = diagnose(m).verdict

    assert verdict.state == "undetermined"
    assert verdict.reason is not None


def test_a_framework_without_words_is_advised_workers_in_a_clause():
    counted = {"num_workers": 0, "busy_ns": np.asarray(per_step(30.0)), "dataset": "made"}

    found = finding("serial-loader", trained(30.0, counted=counted, words=Words(name="made", title="Made", arguments={})))

    assert found.fixes[0].text == "give the loader more worker processes"
