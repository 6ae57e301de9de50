"""Waits for the device that no call tells of: found by how they end, or left open."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from made_traces import host
from simulated_device import Simulated, steps_of
from slowstep.analyses.replay.replay import find_replay
from slowstep.analyses.replay.scenarios import NO_DEVICE_COPIES
from slowstep.analyses.replay.unjudged import HOST_TIME_THEN

Waiting = Callable[[Simulated], None]


def without_copies(wait: Waiting, *, steps: int = 4) -> dict[str, float | str | None]:
    """The last step's replay without its 2 ms of copies within the device, after which the host waits in some way."""
    simulated = Simulated()
    for _ in range(steps):
        for _ in range(5):
            simulated.work(10.0)
            simulated.launch(300.0)
        simulated.launch(2000.0, kind="d2d", name="Memcpy d2d", call="cudaMemcpyAsync")
        wait(simulated)
        simulated.step()
    timeline = simulated.trace()
    rows = find_replay(timeline, steps_of(timeline), {})
    return rows.filter(pl.col("scenario") == NO_DEVICE_COPIES).row(-1, named=True)


def read_back(simulated: Simulated, *, record: bool, after_us: float = 0.0) -> None:
    """`.item()`: copy to the host, wait, and go on with something else; the call that waits may be missing in the trace."""
    begin = simulated.now
    simulated.launch(2.0, kind="d2h", name="Memcpy DtoH", call="cudaMemcpyAsync")
    simulated.wait(7)
    if not record:
        del simulated.hosts[-1]
    simulated.hosts.append(host("aten::item", begin, simulated.now, "operator"))
    simulated.work(after_us)


def unseen(simulated: Simulated, after_us: float = 0.0) -> None:
    """Wait for the device with neither call nor operator, and go on with something else."""
    simulated.wait()
    del simulated.hosts[-1]
    simulated.work(after_us)


@pytest.mark.parametrize("after_us", [0.0, 800.0])
def test_an_operator_that_ends_right_after_the_device_waited_for_it(after_us: float) -> None:
    known, found = (without_copies(lambda s, r=record: read_back(s, record=r, after_us=after_us)) for record in (True, False))

    assert found["not_judged"] is None
    assert found["unchanged_ns"] == pytest.approx(known["unchanged_ns"], rel=0.01)
    assert found["expected_ns"] == pytest.approx(known["expected_ns"], rel=0.01)
    assert found["expected_ns"] < 0.6 * found["unchanged_ns"]


def test_a_next_call_right_after_the_device_shows_a_wait() -> None:
    known, found = without_copies(Simulated.wait), without_copies(unseen)

    assert found["not_judged"] is None
    assert found["expected_ns"] == pytest.approx(known["expected_ns"], rel=0.01)


def test_host_time_that_goes_on_after_the_device_may_be_a_wait_and_leaves_open_what_hangs_on_it() -> None:
    found = without_copies(lambda s: unseen(s, after_us=800.0))

    assert found["not_judged"] == HOST_TIME_THEN.code


def test_one_wait_alone_may_be_chance_and_is_left_open() -> None:
    found = without_copies(unseen, steps=1)

    assert found["not_judged"] == HOST_TIME_THEN.code


@pytest.mark.parametrize(("name", "kind"), [("get_batch", "annotation"), ("aten::sort", "operator")])
def test_named_work_of_the_host_is_no_wait_even_where_it_ends_right_after_the_device(name: str, kind: str) -> None:
    def work(simulated: Simulated) -> None:
        simulated.work(max(simulated.free.values()) + 10.0 - simulated.now, name, kind)

    found = without_copies(work)

    assert found["not_judged"] is None
    assert found["expected_ns"] == pytest.approx(found["unchanged_ns"], rel=0.01)
