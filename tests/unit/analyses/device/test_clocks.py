"""Clocks of host and device that differ: told from what comes before its cause, and never the ground of a gain."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from made_traces import host
from simulated_device import Simulated, steps_of
from slowstep.analyses.completeness import find_trace_doubts
from slowstep.analyses.device.clocks import AHEAD_AT_LAUNCHES, AHEAD_AT_WAITS, BEHIND, LAUNCH_AT_MOST_NS, find_clocks
from slowstep.analyses.events.parts import KERNELS
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.measure_trace import measure_trace
from slowstep.analyses.replay.replay import find_replay
from slowstep.analyses.replay.scenarios import LAUNCHES_FREE
from slowstep.analyses.replay.unjudged import reason_of
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import UNKNOWN
from slowstep.reason_words import sentence
from slowstep.reasons import Reason
from slowstep.timeline.clocks import DeviceClock
from slowstep.timeline.timeline import Timeline


def launching(*, launches: int = 50, kernel_us: float = 4.0, python_us: float = 100.0, steps: int = 3, wait: bool = False) -> Simulated:
    simulated = Simulated()
    for _ in range(steps):
        for _ in range(launches):
            simulated.work(python_us)
            simulated.launch(kernel_us)
        if wait:
            simulated.wait()
        simulated.step()
    return simulated


def shifted(simulated: Simulated, us: float) -> Timeline:
    """The trace with a device whose clock is so much ahead of the host's."""
    simulated.devices = [row | {"start": row["start"] + us, "end": row["end"] + us} for row in simulated.devices]
    return simulated.trace()


def told(timeline: Timeline) -> Reason | None:
    return find_clocks(timeline).differ


def bounds(timeline: Timeline) -> DeviceClock:
    clock = find_clocks(timeline).device
    assert clock is not None
    return clock


def launches_free(timeline: Timeline) -> dict[str, Any]:
    rows = find_replay(timeline, steps_of(timeline), {})
    return rows.filter(pl.col("scenario") == LAUNCHES_FREE).row(-1, named=True)


def test_one_clock_is_told_from_none_and_nothing_from_no_device() -> None:
    assert told(launching().trace()) is None
    assert told(Simulated().trace()) is None


@pytest.mark.parametrize(("us", "by"), [(-50, "0.044 ms"), (-5000, "5 ms")])
def test_work_before_its_launch_says_that_the_devices_clock_is_behind(us: float, by: str) -> None:
    timeline = shifted(launching(), us)

    differ = told(timeline)

    assert differ is not None
    assert differ.of(BEHIND)
    assert f"by {by} or more" in sentence(differ)
    row = launches_free(timeline)
    assert reason_of(row["not_judged"], row["not_judged_values"]) == differ


def test_a_few_events_before_their_launch_are_counted_and_no_more() -> None:
    simulated = launching(launches=100)
    simulated.devices[::20] = [row | {"start": row["start"] - 50, "end": row["end"] - 50} for row in simulated.devices[::20]]
    timeline = simulated.trace()

    assert told(timeline) is None
    assert {row.name: row.count for row in find_trace_doubts(timeline)} == {"device-work-before-its-launch": 15}


def test_launches_that_all_come_as_late_to_an_idle_device_say_that_its_clock_is_ahead() -> None:
    differ = told(shifted(launching(), 3000))

    assert differ is not None
    assert differ.of(AHEAD_AT_LAUNCHES)
    assert differ.values == {"least": pytest.approx(3.0e6, rel=0.02), "by": pytest.approx(3.0e6, rel=0.02)}


def test_launches_that_come_late_by_differing_times_wait_for_something_else() -> None:
    simulated = launching(python_us=5000.0)
    late = ((300.0 + 37 * n % 4000, row) for n, row in enumerate(simulated.devices))
    simulated.devices = [row | {"start": row["start"] + us, "end": row["end"] + us} for us, row in late]

    assert told(simulated.trace()) is None


def test_waiting_calls_that_return_before_the_work_begins_say_that_its_clock_is_ahead() -> None:
    busy = launching(kernel_us=300.0, wait=True)
    assert told(busy.trace()) is None

    differ = told(shifted(busy, 700))

    assert differ is not None
    assert differ.of(AHEAD_AT_WAITS)


@pytest.mark.parametrize("us", [-5000, -50, 3000])
def test_the_offset_of_a_clock_that_differs_is_bounded_by_the_quickest_launch(us: int) -> None:
    clock = bounds(shifted(launching(), us))

    assert clock.offset_low_ns <= -us * 1000 <= clock.offset_high_ns
    assert clock.offset_high_ns - clock.offset_low_ns == LAUNCH_AT_MOST_NS


@pytest.mark.parametrize("us", [700, 5000])
def test_the_offset_of_a_device_that_is_never_idle_is_bounded_by_what_waited_for_it(us: int) -> None:
    clock = bounds(shifted(launching(kernel_us=300.0, wait=True, steps=4), us))

    assert clock.offset_low_ns <= -us * 1000 <= clock.offset_high_ns
    assert clock.offset_high_ns - clock.offset_low_ns > LAUNCH_AT_MOST_NS


def test_nothing_bounds_the_offset_of_a_device_that_is_never_idle_and_never_waited_for() -> None:
    busy = shifted(launching(kernel_us=300.0), -50_000)

    assert told(busy) is not None
    assert find_clocks(busy).device is None


def test_clocks_that_agree_have_no_offset() -> None:
    timeline = launching().trace()

    assert find_clocks(timeline).device is None


@pytest.mark.parametrize("us", [-50, 3000])
def test_a_device_whose_clock_differs_is_charged_within_the_bounds_of_its_offset(us: int) -> None:
    same, off = launching(kernel_us=50.0).trace(), shifted(launching(kernel_us=50.0), us)
    steps = steps_of(same)

    right, _ = build_trace_ledger(same, steps)
    wrong, _ = build_trace_ledger(off, steps, clock=bounds(off))

    assert right.low is None
    least, most = wrong.bounds(KERNELS)
    assert 0 < least < right.total_of(KERNELS) < most
    assert all(low <= right.total_of(part) <= high for part in right.parts for low, high in [wrong.bounds(part)])


def test_the_ledger_of_a_trace_has_bounds_where_its_clocks_differ() -> None:
    right, wrong = (measure_trace(shifted(launching(), us)).ledger for us in (0, 3000))

    assert right.low is None
    assert wrong.low is not None
    assert wrong.total_of(UNKNOWN) > 0


@pytest.mark.parametrize("us", [-50, -2000, 3000])
def test_clocks_that_differ_leave_the_verdict_undetermined_and_say_what_to_do(us: float) -> None:
    simulated = launching()
    simulated.work(5.0, "autograd::engine::evaluate_function: MmBackward0", "operator")
    timeline = shifted(simulated, us)

    verdict = diagnose(measure_trace(timeline)).verdict

    assert (verdict.state, verdict.reason.code) == ("undetermined", "clocks-differ")
    assert any("clock" in sentence(row.remedy) for row in find_trace_doubts(timeline))


def test_one_wrong_time_breaks_no_more_than_one_wait_and_says_nothing() -> None:
    busy = launching(kernel_us=300.0, wait=True, steps=4)
    busy.devices[3] |= {"start": busy.devices[3]["start"] + 1e6, "end": busy.devices[3]["end"] + 1e6}

    assert told(busy.trace()) is None


def reading_back(operator: str | None, *, pageable: bool, waited_for: int = 7) -> Simulated:
    """A busy device, and in every step one value read back: a copy to the host, and a wait right after it."""
    simulated = Simulated()
    for _ in range(3):
        for stream in (7, 8):
            simulated.launch(20_000.0 if stream == 7 else 1_000.0, stream=stream)
        begin = simulated.now
        simulated.launch(1.5, kind="d2h", name="Memcpy DtoH", call="cudaMemcpyAsync", pageable=pageable)
        simulated.work(1.0, "cudaStreamIsCapturing", "runtime")
        simulated.wait(waited_for)
        if operator is not None:
            simulated.hosts.append(host(operator, begin, simulated.now, "operator"))
        simulated.step()
    return simulated


@pytest.mark.parametrize(("operator", "pageable"), [("aten::_local_scalar_dense", False), ("aten::copy_", False), (None, True)])
def test_a_value_that_is_read_before_its_copy_begins_says_that_the_devices_clock_is_ahead(operator: str | None, pageable: bool) -> None:
    assert told(reading_back(operator, pageable=pageable).trace()) is None

    timeline = shifted(reading_back(operator, pageable=pageable), 5000)

    differ = told(timeline)
    assert differ is not None
    assert "by 5 ms or more" in sentence(differ)
    assert {row.name: row.count for row in find_trace_doubts(timeline)} == {"clocks-differ": 1}


def test_a_wait_after_a_pinned_copy_may_be_for_another_stream() -> None:
    assert told(reading_back(None, pageable=False, waited_for=8).trace()) is None
    assert told(reading_back("my_loss", pageable=False, waited_for=8).trace()) is None


def test_a_copy_that_waits_by_its_name_returns_after_it() -> None:
    def copying() -> Simulated:
        simulated = Simulated()
        for _ in range(3):
            simulated.launch(20_000.0)
            simulated.copy_and_wait(10.0, "d2h")
            simulated.hosts[-1] |= {"name": "cudaMemcpy"}
            simulated.step()
        return simulated

    assert told(copying().trace()) is None
    assert told(shifted(copying(), 5000)) is not None
