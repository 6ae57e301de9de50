"""What many analyses ask of one trace is found once, and kept with that timeline alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_traces import host, made_trace
from slowstep.analyses.events.names import host_names
from slowstep.analyses.events.runtime_calls import calls_of_runtime
from slowstep.timeline.timeline import Timeline, found_once


@found_once
def _asked(timeline: Timeline) -> list[int]:
    return [timeline.count("host_events")]


def test_it_is_found_once():
    trace = made_trace(hosts=[host("aten::mm", 0, 10)])

    assert _asked(trace) is _asked(trace)


def test_of_another_timeline_it_is_found_anew():
    trace = made_trace(hosts=[host("aten::mm", 0, 10)])
    first = _asked(trace)
    other = replace(trace, tables={**trace.tables, "host_events": trace.table("host_events").clear()})

    assert (first, _asked(other), _asked(trace)) == ([1], [0], [1])


def test_what_fails_is_tried_again():
    tries = []

    @found_once
    def fails_first(_: Timeline) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError
        return len(tries)

    trace = made_trace()
    with pytest.raises(ValueError):
        fails_first(trace)

    assert fails_first(trace) == 2


def test_several_functions_of_one_timeline_are_kept_apart():
    hosts = [host("aten::mm", 0, 10), host("cudaLaunchKernel", 2, 4, "runtime", correlation=1)]
    trace = made_trace(hosts=hosts)

    assert calls_of_runtime(trace)["name"].to_list() == ["cudaLaunchKernel"]
    assert sorted(host_names(trace)["text"]) == ["aten::mm", "cudaLaunchKernel"]
    assert host_names(trace, ["operator"])["text"].to_list() == ["aten::mm"]
    assert host_names(trace, ["runtime", "driver"])["text"].to_list() == ["cudaLaunchKernel"]
