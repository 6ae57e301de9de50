"""What a process says of the cores that it may use."""

from __future__ import annotations

import os

import pytest

from slowstep.record.system import facts

SIBLINGS = {0: "0,4\n", 1: "1,5\n", 4: "0,4\n", 5: "1,5\n"}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system tells of no affinity")
@pytest.mark.parametrize(("allowed", "physical"), [({0, 1, 4, 5}, 2), ({0, 4}, 1), ({0, 1}, 2), ({0, 7}, None)])
def test_hardware_threads_of_one_core_are_one_physical_core(
    allowed: set[int], physical: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list": line for number, line in SIBLINGS.items()}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    monkeypatch.setattr(facts, "read_text", said.get)

    assert facts.physical_cores() == physical
