"""The ledger of a trace that has the host's calls to a device and nothing of what that did."""

from __future__ import annotations

from typing import Any

import pytest

from made_parts import us_of
from made_traces import host, made_trace, step
from slowstep.analyses.ledger.instants import find_stretches
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.seen_from_host import works_unseen
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.parts import DEVICE_WORK, UNKNOWN, PartKind
from slowstep.timeline.timeline import Timeline

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MS = 1000


def launch(begin: int) -> Any:
    return host("cudaLaunchKernel", begin, begin + 5, "runtime")


def ledger_of(*hosts: Any, until: int) -> tuple[Timeline, Ledger]:
    trace = made_trace(hosts=hosts, steps=[step(1, 0, until)])
    ledger, gaps = build_trace_ledger(trace, find_trace_steps(trace)[0])
    assert gaps.is_empty()
    return trace, ledger


def bounds_us(ledger: Ledger, kind: PartKind) -> tuple[float, float]:
    low, high = ledger.bounds(*(part for part in ledger.parts if part.kind is kind))
    return low / 1000, high / 1000


def test_from_a_call_that_waits_to_the_next_launch_the_device_idles_and_the_time_is_the_hosts() -> None:
    wait = host("cudaDeviceSynchronize", 10, 8 * MS, "runtime")
    _, ledger = ledger_of(launch(0), wait, host(LOADER, 9 * MS, 19 * MS, "annotation"), launch(20 * MS), until=21 * MS)

    assert bounds_us(ledger, PartKind.INPUT_WAIT) == (10 * MS, 10 * MS)
    # From the return of the call to the wait for input, and from that to the launch.
    assert bounds_us(ledger, PartKind.RUN_DRY)[0] == pytest.approx(2 * MS)
    # It waited for something: the device worked, but for the launch and the return.
    assert bounds_us(ledger, PartKind.DEVICE_WORK)[0] == pytest.approx(8 * MS - 200)


def test_after_a_launch_it_is_not_known_whether_the_device_works() -> None:
    trace, ledger = ledger_of(launch(0), host(LOADER, 1 * MS, 9 * MS, "annotation"), launch(10 * MS), until=11 * MS)

    assert bounds_us(ledger, PartKind.INPUT_WAIT) == (0, 8 * MS)
    assert ledger.bounds(DEVICE_WORK)[0] == 0
    assert ledger.share_of(UNKNOWN) > 0.95
    assert us_of(ledger)[UNKNOWN] > 10 * MS
    stretches = find_stretches(trace, find_trace_steps(trace)[0], build_trace_ledger(trace, find_trace_steps(trace)[0])[1])
    assert PartKind.UNKNOWN in stretches["kind"].to_list()
    assert (stretches["end_ns"] - stretches["start_ns"]).sum() == 11 * MS * 1000


def test_the_wait_for_a_stream_tells_nothing_of_when_others_end() -> None:
    copied = host("cudaMemcpyAsync", 50, 60, "runtime"), host("cudaStreamSynchronize", 70, 1 * MS, "runtime")
    _, ledger = ledger_of(launch(0), *copied, host(LOADER, 2 * MS, 18 * MS, "annotation"), launch(20 * MS), until=21 * MS)

    assert bounds_us(ledger, PartKind.INPUT_WAIT) == (0, 16 * MS)
    # One of them had work while it lasted.
    assert bounds_us(ledger, PartKind.DEVICE_WORK)[0] == pytest.approx(1 * MS - 250, abs=100)


def test_the_wait_for_an_event_tells_nothing_of_what_was_issued_behind_it() -> None:
    wait = host("cudaEventSynchronize", 10, 8 * MS, "runtime")
    _, ledger = ledger_of(launch(0), wait, host(LOADER, 9 * MS, 19 * MS, "annotation"), launch(20 * MS), until=21 * MS)

    assert bounds_us(ledger, PartKind.INPUT_WAIT)[0] == 0


def test_without_the_runtimes_calls_operators_of_a_device_tell_that_it_works_and_never_when() -> None:
    hosts = [host(LOADER, 0, 30, "annotation"), host("aten::cudnn_convolution", 40, 60), host("aten::mm", 70, 90)]
    _, ledger = ledger_of(*hosts, until=100)

    assert bounds_us(ledger, PartKind.INPUT_WAIT) == (0, 30)
    assert ledger.share_of(UNKNOWN) == 1


def test_a_trace_without_any_sign_of_a_device_is_of_the_host() -> None:
    for name, kind in (("aten::mm", "operator"), ("gloo:all_reduce", "annotation"), ("cudaGetDevice", "runtime")):
        assert not works_unseen(made_trace(hosts=[host(name, 0, 10, kind)]))
    for name, kind in (("aten::miopen_convolution", "operator"), ("nccl:all_reduce", "annotation"), ("hipGraphLaunch", "runtime")):
        assert works_unseen(made_trace(hosts=[host(name, 0, 10, kind)]))
