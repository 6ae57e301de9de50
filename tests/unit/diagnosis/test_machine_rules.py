from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_machine import GIB, MIB, MadeMachine, make_machine_recording
from made_recordings import TRAINER_PID, Training
from slowstep.analyses.measurements import measure
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules import foreign_load
from slowstep.document.report import validate
from slowstep.report.terminal import render
from slowstep.sources.recording import SOURCE
from slowstep.workflow.diagnose import diagnose_recording

Report = dict[str, Any]


def report_of(folder: Path, machine: MadeMachine, **training: Any) -> Report:
    report: Report = diagnose_recording(make_machine_recording(folder, Training(**training), machine))
    validate(report)
    return report


def leak(bytes_in_all: float, start: float = GIB) -> Any:
    return lambda share: start + share * bytes_in_all


def cache(share: float) -> float:
    """Fills up in the first half of the run."""
    return GIB + min(share, 0.5) * GIB


def sawtooth(share: float) -> float:
    """Workers that end with every epoch: 200 steps in epochs of 25."""
    return GIB + (share * 8 % 1) * 300 * MIB


def rising_sawtooth(share: float) -> float:
    return sawtooth(share) + share * GIB


PLENTY = {"available": lambda share: 32 * GIB}
MANY = {"cores": 16, "threads": 1, "workers": 1}

FIRING: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # Rule, machine, training, and evidence (name: value) that must stand in it.
    "foreign load": ("foreign-load", {"pressure": 0.6}, {"foreign_cores": 2.0, "delay_ms": 2}, {"cores used by others": 2.0}),
    "memory that grows": ("memory-growth", {"resident": leak(GIB), **PLENTY}, {}, {}),
    "memory that grows beside workers that end": ("memory-growth", {"resident": rising_sawtooth, **PLENTY}, {}, {}),
    "memory that grows and no limit known": ("memory-growth", {"resident": leak(GIB)}, {}, {}),
    "little of the machine left": ("memory-near-limit", {"available": lambda share: GIB, "total_bytes": 32 * GIB}, {}, {}),
    "little of the group's limit left": (
        "memory-near-limit",
        {"group_bytes": lambda share: 9.5 * GIB, "limit_bytes": 10 * GIB, **PLENTY},
        {},
        {"least that was left": 512.0},
    ),
    "swapping": ("memory-near-limit", {"swap_in_per_s": 5 * MIB, **PLENTY}, {}, {"swapped in": 5.0}),
    "one thread on many cores": ("idle-cores", {"idle_cores": 14.0}, MANY, {"threads for one operation": 1}),
    "one thread on two cores, of which little else runs on the other": (
        "idle-cores",
        {"idle_cores": 0.97},
        {"cores": 2, "threads": 1, "loader": False, "workers": 0},
        {"threads for one operation": 1},
    ),
    "more threads than cores": (
        "thread-contention",
        {"queueing": 3.0},
        {"threads": 16, "delay_ms": 3},
        {"threads that wait for a core": 3.0},
    ),
    "a quota smaller than the threads": (
        "thread-contention",
        {"quota": 2.0, "throttled": 0.6},
        {"cores": 16, "delay_ms": 3},
        {"quota": 2.0, "threads for one operation": 16},
    ),
    "a quota and no delay seen": ("thread-contention", {"quota": 2.0, "throttled": 0.6}, {"cores": 16}, {}),
    "a library that binds the process": (
        "thread-contention",
        {"affinity": (4, 1)},
        {"delay_ms": 4, "threads": 1},
        {"cores that it may use now": 1, "cores at its start": 4},
    ),
    "a library that bound the process before it began to train": (
        "thread-contention",
        {"affinity": (4, 1)},
        {"cores": 1, "delay_ms": 4},
        {"cores that it may use now": 1, "cores at its start": 4},
    ),
    "a device in a low state": ("device-throttled", {"device": {"state": 8}, "cuda": True}, {}, {"performance state": "P8"}),
    "a hot device": ("device-throttled", {"device": {"lowered_by": 0x40, "sm_mhz": 900}, "cuda": True}, {}, {}),
    "a device whose power was limited": (
        "device-throttled",
        {"device": {"lowered_by": 0x04, "power_limit_mw": 350_000}, "cuda": True},
        {},
        {},
    ),
    "a device whose clocks were set": ("device-throttled", {"device": {"lowered_by": 0x02, "sm_mhz": 1000}, "cuda": True}, {}, {}),
    "another tenant": ("shared-device", {"device": {"tenants": (1, 2, 3 * GIB)}, "cuda": True}, {}, {"memory that they hold": 3072.0}),
    "an idle device": ("low-device-use", {"device": {"busy": 20}, "cuda": True}, {}, {"some kernel ran": 0.2}),
}

SILENT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a little foreign load": ("foreign-load", {}, {"foreign_cores": 0.7}),
    "memory that stays": ("memory-growth", {"resident": leak(0), **PLENTY}, {}),
    "a cache that fills up": ("memory-growth", {"resident": cache, **PLENTY}, {}),
    "workers that end with every epoch": ("memory-growth", {"resident": sawtooth, **PLENTY}, {}),
    "a dataset read through a map": ("memory-growth", {"resident": leak(0), "mapped": leak(4 * GIB), **PLENTY}, {}),
    "a few MiB": ("memory-growth", {"resident": leak(50 * MIB), **PLENTY}, {}),
    "a small share of much": ("memory-growth", {"resident": leak(500 * MIB, 60 * GIB), **PLENTY}, {}),
    "growth that takes weeks to matter": ("memory-growth", {"resident": leak(GIB), "available": lambda share: 1e6 * GIB}, {}),
    "a fifth left": ("memory-near-limit", {"available": lambda share: 2 * GIB, "total_bytes": 10 * GIB}, {}),
    "a small share of a large machine left": ("memory-near-limit", {"available": lambda share: 60 * GIB, "total_bytes": 1024 * GIB}, {}),
    "file pages that can be dropped": (
        "memory-near-limit",
        {"group_bytes": lambda share: 9.9 * GIB, "limit_bytes": 10 * GIB, "droppable_bytes": 6 * GIB, **PLENTY},
        {},
    ),
    "pages that come back now and then": ("memory-near-limit", {"swap_in_per_s": 20_000, **PLENTY}, {}),
    "threads for half of the cores and more": ("idle-cores", {"idle_cores": 14.0}, {**MANY, "threads": 9}),
    "operations too short to be divided": ("idle-cores", {"idle_cores": 14.0}, {**MANY, "nodes": 2000}),
    "cores that others use": ("idle-cores", {"idle_cores": 1.0}, {**MANY, "foreign_cores": 14.0}),
    "two cores of which one computes": ("idle-cores", {"idle_cores": 0.85}, {"cores": 2, "threads": 1}),
    "one that computes in two thirds of its time": (
        "idle-cores",
        {"idle_cores": 1.4},
        {"cores": 2, "threads": 1, "workers": 1, "getitem_ms": 4, "blocked_ms": 25},
    ),
    "a training that waits for its input": ("idle-cores", {"idle_cores": 14.0}, {**MANY, "blocked_ms": 60}),
    "more threads than cores and no delay": ("thread-contention", {"queueing": 0.0}, {"threads": 16}),
    "a delay that others may have caused": ("thread-contention", {}, {"delay_ms": 3, "foreign_cores": 2.0}),
    "a delay and no more threads than cores": ("thread-contention", {}, {"delay_ms": 5}),
    "a quota that is seldom used up": ("thread-contention", {"quota": 2.0, "throttled": 0.1}, {"cores": 16}),
    "threads that each have a core": ("thread-contention", {"affinity": (4, 4)}, {"delay_ms": 4, "threads": 1}),
    "fewer cores and no delay": ("thread-contention", {"affinity": (4, 1)}, {"threads": 1}),
    "a device at its best": ("device-throttled", {"device": {}, "cuda": True}, {}),
    "a device at its own power limit": ("device-throttled", {"device": {"lowered_by": 0x04, "sm_mhz": 1500}, "cuda": True}, {}),
    "a device that rests": ("device-throttled", {"device": {"lowered_by": 0x01}, "cuda": True}, {}),
    "a device that rests between its steps": (
        "device-throttled",
        {"device": {"busy": lambda share: 90 if share * 100 % 2 < 1 else 0, "state": 0}, "cuda": True},
        {},
    ),
    "nobody else": ("shared-device", {"device": {"tenants": (1, 0, 0)}, "cuda": True}, {}),
    "processes of a container that cannot be told apart": ("shared-device", {"device": {"tenants": (0, 1, GIB)}, "cuda": True}, {}),
    "a device that is busy": ("low-device-use", {"device": {"busy": 60}, "cuda": True}, {}),
    "a training on the processor beside an idle device": ("low-device-use", {"device": {"busy": 0}}, {}),
    "a training on the processor beside a throttled device": ("device-throttled", {"device": {"state": 8}}, {}),
}


@pytest.mark.parametrize("name", FIRING)
def test_a_rule_fires_and_shows_what_was_measured(tmp_path: Path, name: str) -> None:
    rule, machine, training, evidence = FIRING[name]

    report = report_of(tmp_path, MadeMachine(**machine), **training)

    (finding,) = [finding for finding in report["findings"] if finding["rule"] == rule]
    shown = {row["name"]: row["value"] for row in finding["evidence"]}
    assert {key: pytest.approx(value, rel=0.1) if isinstance(value, float) else value for key, value in evidence.items()}.items() <= {
        key: shown.get(key) for key in evidence
    }.items()
    # Nothing of the machine has a gain that could be predicted, so none of it is called the bottleneck.
    assert finding["gain"]["predicted"] is None
    assert report["verdict"]["rule"] != rule


@pytest.mark.parametrize("name", SILENT)
def test_a_rule_is_silent_on_what_is_nearly_so(tmp_path: Path, name: str) -> None:
    rule, machine, training = SILENT[name]

    report = report_of(tmp_path, MadeMachine(**machine), **training)

    assert rule not in [finding["rule"] for finding in report["findings"]]


def test_a_healthy_training_beside_a_foreign_load_is_busy_and_not_blamed(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine(pressure=0.9), foreign_cores=3.0, delay_ms=6, last_batch=8, epoch_steps=20)

    assert report["verdict"]["state"] == "healthy"
    assert [finding["rule"] for finding in report["findings"]] == ["foreign-load"]
    assert report["findings"][0]["claims"] == []
    # The first three are shown, and a page of 80 columns has a third of them for names.
    assert [row["name"] for row in report["findings"][0]["evidence"][:3] if len(row["name"]) > 80 // 3] == []


def test_memory_that_is_used_up_within_the_hour_is_told_before_everything_else(tmp_path: Path) -> None:
    soon = MadeMachine(resident=leak(GIB), available=lambda share: 4 * GIB)

    report = report_of(tmp_path, soon, threads=16, delay_ms=8)

    assert [finding["rule"] for finding in report["findings"]] == ["memory-growth", "thread-contention"]
    assert report["run"]["notes"][0].startswith("out of memory within the hour at this rate: memory grows by")
    # It is no reason why the training is slow.
    assert "thread-contention" in report["verdict"]["summary"]


def test_memory_that_lasts_for_hours_is_told_last_and_in_no_note(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine(resident=leak(GIB), available=lambda share: 4000 * GIB), threads=16, delay_ms=8)

    assert [finding["rule"] for finding in report["findings"]] == ["thread-contention", "memory-growth"]
    assert "notes" not in report["run"]


SHORT = {"every_ms": 600.0}


def test_memory_that_no_longer_recording_would_outlive_is_told_of_a_short_window(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine(resident=leak(2 * GIB), available=lambda share: 8 * GIB, **SHORT))

    assert report["findings"][0]["rule"] == "memory-growth"
    assert report["findings"][0]["title"].endswith("unless it settles (the window is too short to tell)")
    assert report["run"]["notes"][0].startswith("out of memory within the hour at this rate: memory grows by")
    assert report["verdict"]["rule"] != "memory-growth"


@pytest.mark.parametrize(
    ("resident", "left", "largest", "is_pressing"),
    [
        (leak(2 * GIB), 80 * GIB, TRAINER_PID, True),
        (leak(2 * GIB), 8000 * GIB, TRAINER_PID, False),
        (leak(2 * GIB), 8 * GIB, 7, False),
        (cache, 8 * GIB, TRAINER_PID, False),
        (leak(100 * MIB), 4 * GIB, TRAINER_PID, False),
    ],
    ids=["within the hour", "for long", "of a worker", "settles", "little"],
)
def test_other_growth_of_a_short_window_is_not_judged(tmp_path: Path, resident: Any, left: float, largest: int, is_pressing: bool) -> None:
    machine = MadeMachine(resident=resident, available=lambda share: left, total_bytes=9000 * GIB, largest_pid=largest, **SHORT)

    report = report_of(tmp_path, machine)

    (row,) = [row for row in report["not_judged"] if row["rule"] == "memory-growth"]
    assert (row.get("pressing", False), row["advisory"]) == (is_pressing, True)
    assert row["code"] == ("grows-or-settles" if is_pressing else "growth-or-settling")


def test_contention_that_takes_a_tenth_leaves_no_training_healthy(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine(), threads=16, delay_ms=8)

    assert report["verdict"]["state"] == "undetermined"
    assert "thread-contention" in report["verdict"]["summary"]
    assert report["findings"][0]["claims"] == ["waiting for a core"]


def test_too_many_threads_beside_others_are_said_and_decide_no_verdict(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine(), threads=16, delay_ms=8, foreign_cores=2.0)

    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "thread-contention"]
    assert finding["title"] == "16 threads for one operation share 4 cores, with other processes beside them"
    assert finding["claims"] == []
    assert "thread-contention" not in report["verdict"]["summary"]


def test_what_was_not_measured_is_said_and_leaves_a_healthy_training_healthy(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine())

    assert report["verdict"]["state"] == "healthy"
    assert {"memory-growth", "memory-near-limit"} <= {row["rule"] for row in report["not_judged"] if row["advisory"]}


def test_a_training_on_a_device_that_was_not_read_is_not_judged(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine(cuda=True))

    assert {"device-throttled", "shared-device", "low-device-use"} <= {row["rule"] for row in report["not_judged"]}


def test_two_training_processes_share_the_cores(tmp_path: Path) -> None:
    report = report_of(tmp_path, MadeMachine(), threads=4, delay_ms=3)
    assert "thread-contention" not in [finding["rule"] for finding in report["findings"]]

    # Another rank: the same files under another number.
    for name in ("100-1.rec", "100-1.jsonl"):
        text = (tmp_path / name).read_bytes().replace(b'"pid": 100', b'"pid": 101')
        (tmp_path / name.replace("100", "101")).write_bytes(text)
    both: Report = diagnose_recording(tmp_path)

    (finding,) = [finding for finding in both["findings"] if finding["rule"] == "thread-contention"]
    assert {row["name"]: row["value"] for row in finding["evidence"]}["training processes"] == 2


def test_what_others_take_is_of_the_cores_of_all_ranks_wherever_it_is_said(tmp_path: Path) -> None:
    folder = make_machine_recording(tmp_path, Training(foreign_cores=2.0, delay_ms=6, nodes=None), MadeMachine(pressure=0.6))
    alone = measure(SOURCE.read(folder))
    # A second rank trains beside it: of the cores that both may use, half are this one's.
    m = replace(alone, cores=2.0)

    answer = foreign_load.judge(m)

    assert isinstance(answer, Judged)
    assert "other processes use 2.0 of 4 cores" in answer.finding.title
    share = {row.name: row for row in answer.finding.evidence}["their share of the cores"].value
    assert (share, answer.finding.evidence[0].where) == (pytest.approx(0.5, rel=0.05), "of 4 allowed")


def test_what_others_take_is_said_once_and_is_no_numbered_finding(tmp_path: Path) -> None:
    busy = report_of(tmp_path, MadeMachine(pressure=0.6), foreign_cores=2.0, delay_ms=2, after_ms=15)

    (finding,) = [row for row in busy["findings"] if row["rule"] == "foreign-load"]
    page = render(busy, width=200, color=False)
    said = " ".join(page.split())
    assert finding["outside"]
    assert said.count("other processes use 2.0 of 4 cores") == said.count("cores") - said.count("cores of its own") == 1
    assert "foreign-load" not in page
    assert [line for line in page.splitlines() if line.startswith(("1. ", "2. "))][1:] == []
