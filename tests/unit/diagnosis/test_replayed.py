from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from made_topics import of_topics
from slowstep.analyses.events.tables import REPLAY, STEPS
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.recording_cost import AS_RECORDED, LESS_MOST_COST, LESS_USUAL_COST
from slowstep.analyses.replay.replay_topic import ReplayTopic
from slowstep.analyses.replay.scenarios import LARGER_BATCH, NO_INPUT_WAIT
from slowstep.analyses.replay.unjudged import DELAYS_IN_STEP, NO_DEVICE_WORK, unjudged_columns
from slowstep.analyses.steps.marks_topic import MarksTopic
from slowstep.analyses.steps.trace_steps import as_steps
from slowstep.diagnosis.gain import RUN_TO_RUN, predict
from slowstep.diagnosis.replayed import NO_STEP_REPLAYED, NOT_REPLAYED, Replayed

MS = 1_000_000
NO_WAIT = Replayed(NO_INPUT_WAIT, assumes="no wait")


def measured(lengths_ms: list[float], rows: list[dict[str, Any]]) -> Measurements:
    ends = [round(sum(lengths_ms[: n + 1]) * MS) for n in range(len(lengths_ms))]
    columns: dict[str, Any] = dict.fromkeys(STEPS.schema) | {"mark": "x"}
    steps = [
        columns | {"step": n, "number": n, "start_ns": end - round(ms * MS), "end_ns": end}
        for n, (end, ms) in enumerate(zip(ends, lengths_ms, strict=True))
    ]
    full: dict[str, Any] = dict.fromkeys(REPLAY.schema)
    replay = [full | {"scenario": NO_INPUT_WAIT, "recording": AS_RECORDED, "residual_ns": 0} | row for row in rows]
    rows_of_steps = pl.DataFrame(steps, schema=STEPS.schema)
    return of_topics(
        marks=MarksTopic(table=rows_of_steps, whole_steps=len(lengths_ms)),
        steps=as_steps(rows_of_steps, len(lengths_ms)),
        replay=ReplayTopic(table=pl.DataFrame(replay, schema=REPLAY.schema)),
    )


def row(
    step: int, before_ms: float, expected: float | None, best: float | None = None, worst: float | None = None, **more: Any
) -> dict[str, Any]:
    def ns(ms: float | None) -> int | None:
        return None if ms is None else round(ms * MS)

    times = {"observed_ns": ns(before_ms), "unchanged_ns": ns(before_ms), "expected_ns": ns(expected)}
    return {"step": step, "best_ns": ns(best or expected), "worst_ns": ns(worst or expected)} | times | more


def test_the_gain_is_time_before_by_time_after_and_its_interval_takes_in_the_assumptions_and_the_steps() -> None:
    m = measured([100.0, 120.0], [row(0, 100.0, 50.0, best=40.0, worst=60.0), row(1, 120.0, 50.0, best=40.0, worst=80.0)])
    gain = predict(m, NO_WAIT)
    assert gain.predicted == pytest.approx(2.2)
    assert gain.low == pytest.approx(120 / 80 * (1 - RUN_TO_RUN))
    assert gain.high == pytest.approx(120 / 40 * (1 + RUN_TO_RUN))
    assert gain.assumes == "no wait"
    assert NO_WAIT.removed_ms(m) == pytest.approx(60.0)


def test_the_slowest_of_many_steps_stands_for_itself_alone() -> None:
    lengths = [100.0] * 99 + [1000.0]
    m = measured(lengths, [row(n, 100.0, 100.0) for n in range(4)] + [row(99, 1000.0, 100.0)])
    assert NO_WAIT.removed_ms(m) == pytest.approx(9.0)
    gain = predict(m, NO_WAIT)
    assert gain.predicted == pytest.approx(10_900 / 10_000)
    assert gain.high is not None
    assert gain.high < 1.2
    assert gain.low == pytest.approx(1.0 * (1 - RUN_TO_RUN))


def test_an_unjudged_scenario_has_no_gain_and_says_why() -> None:
    m = measured([100.0] * 3, [row(n, 100.0, None, **unjudged_columns(NO_DEVICE_WORK())) for n in range(2)] + [row(2, 100.0, 50.0)])
    gain = predict(m, NO_WAIT)
    assert (gain.predicted, gain.low, gain.high) == (None, None, None)
    assert (gain.assumes, gain.unknown_because) == ("no wait", NOT_REPLAYED(why=NO_DEVICE_WORK()))
    assert NO_WAIT.removed_ms(m) is None


def test_of_several_reasons_the_commonest_is_given_as_it_was_in_its_first_step() -> None:
    reasons = [NO_DEVICE_WORK(), DELAYS_IN_STEP(share=0.3), DELAYS_IN_STEP(share=0.2)]
    m = measured([100.0] * 3, [row(n, 100.0, None, **unjudged_columns(reason)) for n, reason in enumerate(reasons)])
    assert predict(m, NO_WAIT).unknown_because == NOT_REPLAYED(why=DELAYS_IN_STEP(share=0.3))


def test_few_unjudged_steps_leave_the_gain_of_the_others() -> None:
    m = measured([100.0] * 3, [row(0, 100.0, None, **unjudged_columns(NO_DEVICE_WORK())), row(1, 100.0, 50.0), row(2, 100.0, 50.0)])
    assert predict(m, NO_WAIT).predicted == pytest.approx(2.0)


def test_without_any_replay_the_gain_is_unknown() -> None:
    gain = predict(measured([100.0], []), Replayed(LARGER_BATCH, assumes="twice"))
    assert gain.predicted is None
    assert gain.unknown_because == NO_STEP_REPLAYED()


def test_an_undeclared_scenario_is_refused() -> None:
    with pytest.raises(ValueError, match="no such scenario"):
        predict(measured([100.0], []), Replayed("magic", assumes="magic"))
    with pytest.raises(ValueError, match="no such scenario"):
        Replayed("magic", assumes="magic").removed_ms(measured([100.0], []))


def test_a_gain_is_predicted_without_the_profiler_and_its_interval_reaches_from_as_recorded_to_without_the_most() -> None:
    rows = [row(step, 100.0, 50.0) for step in range(3)]
    rows += [row(step, 80.0, 50.0, recording=LESS_USUAL_COST) for step in range(3)]
    rows += [row(step, 60.0, 50.0, recording=LESS_MOST_COST) for step in range(3)]
    gain = predict(measured([100.0] * 3, rows), NO_WAIT)
    assert gain.predicted == pytest.approx(1.6)
    assert gain.low == pytest.approx(1.2 * (1 - RUN_TO_RUN))
    assert gain.high == pytest.approx(2.0 * (1 + RUN_TO_RUN))
