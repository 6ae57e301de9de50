"""What the device computes for what somebody has named beside the model."""

from __future__ import annotations

import pytest

from made_traces import host
from simulated_device import Simulated, steps_of
from slowstep.analyses.events.parts import COLUMNS, part_of
from slowstep.analyses.ledger.named_work import find_named_work
from slowstep.parts import VALIDATION


def _validated(*names: str, validating: int = 20) -> Simulated:
    """Four steps of ten kernels of 100 us; in the third, kernels more inside ranges of these names, one within another."""
    device = Simulated()
    for number in range(4):
        for _ in range(10):
            device.launch(100)
        if number == 2:
            begin = device.now
            for _ in range(validating):
                device.launch(100)
            device.hosts += [host(name, begin + k, device.now - k, "annotation") for k, name in enumerate(names)]
        device.wait()
        device.step()
    return device


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("validation",), [(2, VALIDATION, 20, 2_000_000)]),
        (("run_validation", "log_images"), [(2, VALIDATION, 20, 2_000_000)]),
        (("forward",), []),
        ((), []),
    ],
    ids=["named", "one in another", "the model's", "not named"],
)
def test_kernels_are_those_of_the_outermost_range_that_launched_them(names, found):
    trace = _validated(*names).trace()

    rows = find_named_work(trace, steps_of(trace)).select("step", *COLUMNS, "kernels", "ns").rows()
    assert [(step, part_of(row), kernels, ns) for step, *row, kernels, ns in rows] == found


def test_kernels_of_two_streams_at_once_count_once():
    device = _validated("validation")
    for row in device.devices[30:50]:
        row |= {"start": device.devices[30]["start"], "end": device.devices[30]["end"]}
    trace = device.trace()

    (row,) = find_named_work(trace, steps_of(trace)).rows(named=True)
    assert (row["kernels"], row["ns"]) == (20, 100_000)


def test_work_that_another_thread_launches_is_not_the_ranges():
    device = _validated(validating=0)
    begin = device.now
    device.launch(100, thread=1)
    device.hosts.append(host("validation", begin, device.now, "annotation"))
    device.wait()
    device.step()
    trace = device.trace()

    assert find_named_work(trace, steps_of(trace)).is_empty()
