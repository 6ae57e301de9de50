from __future__ import annotations

import pytest

from made_traces import device, host, made_trace
from slowstep.analyses.device.waits import read_waits
from slowstep.analyses.events.synchronizing import synchronizing_calls
from slowstep.analyses.python.callers import Callers


def waiting(*calls, works=()) -> list[str]:
    """Which of some calls wait, by name, as both the ledger and the table of synchronizations see it."""
    rows = [host(name, 10 * at, 10 * at + 5, "runtime", correlation=at) for at, name in enumerate(calls, 1)]
    trace = made_trace(
        hosts=rows, devices=[device(kind, 1000, 1005, kind, correlation=at, pageable=pageable) for at, kind, pageable in works]
    )

    found = synchronizing_calls(trace)["name"].to_list()

    assert read_waits(trace, Callers(trace))["call"].to_list() == found
    return found


def test_synchronizations_and_frees_wait():
    assert waiting("cudaLaunchKernel", "cudaStreamSynchronize", "cudaFree") == ["cudaStreamSynchronize", "cudaFree"]


@pytest.mark.parametrize(
    ("call", "kind", "pageable", "waits"),
    [
        ("cudaMemcpy", "h2d", False, True),
        ("cudaMemcpy", "d2d", None, False),
        ("cudaMemcpyAsync", "d2h", True, True),
        ("cudaMemcpyAsync", "d2h", False, False),
        ("cudaMemcpyAsync", "h2d", True, False),
        ("cudaGraphLaunch", "d2h", True, False),
    ],
)
def test_what_a_copy_moves_decides_whether_its_call_waits(call, kind, pageable, waits):
    assert waiting(call, works=[(1, kind, pageable)]) == ([call] if waits else [])


def test_a_copy_that_waits_by_its_name_does_where_the_trace_does_not_show_what_it_moved():
    assert waiting("cudaMemcpy") == ["cudaMemcpy"]
