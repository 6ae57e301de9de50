"""Several captures of one process are not several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from few import few
from kineto_files import event, written
from slowstep.workflow.analyze import analyze

NOON_US = 1_700_000_000_000_000.0
STEP_US = 1000.0
CAPTURES = [f"vm_100.17000000000000000{at:02}.pt.trace.json" for at in range(3)]


def capture(folder: Path, name: str, *, first: int, begin_us: float, steps: int = 3, pid: int = 100, **around: Any) -> None:
    """So many marked steps from number `first` on."""
    begins = [(first + at, NOON_US + begin_us + STEP_US * at) for at in range(steps)]
    events = [event(f"ProfilerStep#{number}", ts, 0.9 * STEP_US, "user_annotation", pid=pid) for number, ts in begins]
    events += [event("aten::mm", ts + 1, 0.5 * STEP_US, pid=pid) for _, ts in begins]
    written(folder, events, name, **around)


def health(report: dict[str, Any]) -> dict[str, tuple[int, str]]:
    return {row["name"]: (row["count"], row["remedy"]) for row in report["health"]}


def ranks(report: dict[str, Any]) -> dict[int, str]:
    return {row["rank"]: row["report"] for row in report["run"]["rank_rows"]}


def test_of_the_captures_of_a_process_the_last_is_judged_and_the_others_are_named(tmp_path):
    for at, name in enumerate(CAPTURES):
        capture(tmp_path, name, first=10 * at, begin_us=10 * STEP_US * at)

    report = analyze([tmp_path])

    assert report["run"]["name"] == CAPTURES[2]
    assert report["run"]["ranks"] == 1
    assert "rank_rows" not in report["run"]
    assert health(report).keys().isdisjoint({"ranks-not-named", "unrelated-traces", "duplicate-ranks"})
    count, said = health(report)["captures-of-one-process"]
    assert count == 2
    assert f"{CAPTURES[2]}, and not {CAPTURES[0]}, {CAPTURES[1]}; give another by its path" in said


@pytest.mark.slow
def test_a_capture_of_more_steps_comes_before_a_later_one(tmp_path):
    for at, name in enumerate(CAPTURES):
        capture(tmp_path, name, first=10 * at, begin_us=10 * STEP_US * at, steps=5 if at == 1 else 3)

    assert analyze([tmp_path])["run"]["name"] == CAPTURES[1]


@pytest.mark.slow
def test_captures_by_any_name_are_told_by_their_steps_and_times(tmp_path):
    for first in (4, 14):
        capture(tmp_path, f"trace_{first}.json", first=first, begin_us=first * STEP_US)

    report = analyze([tmp_path])

    assert report["run"]["name"] == "trace_14.json"
    assert health(report)["captures-of-one-process"][0] == 1


@pytest.mark.parametrize(
    ("second", "around"),
    few(
        [
            ({"name": "b.json", "first": 0, "begin_us": 1e5}, {}),
            ({"name": "b.json", "first": 0, "begin_us": 500.0}, {"host_name": "vm"}),
            ({"name": "b.json", "first": 10, "begin_us": 1e5, "pid": 101}, {"host_name": "vm"}),
            ({"name": "other_100.1700000000000000000.pt.trace.json", "first": 10, "begin_us": 1e5}, {}),
            ({"name": "b.json", "first": 10, "begin_us": 1e5, "host_name": "other"}, {"host_name": "vm"}),
        ],
        every=3,
    ),
    ids=["the same steps", "the same time", "another pid", "another worker", "another host"],
)
def test_traces_of_other_processes_are_ranks(tmp_path, second, around):
    name = CAPTURES[0] if second["name"].startswith("other") else "a.json"
    capture(tmp_path, name, first=0, begin_us=0.0, **around)
    capture(tmp_path, **(around | second))

    report = analyze([tmp_path])

    assert list(ranks(report)) == [0, 1]
    assert "captures-of-one-process" not in health(report)


@pytest.mark.slow
def test_each_rank_may_have_left_several_captures(tmp_path):
    for rank in (0, 1):
        for at in range(2):
            job = {"distributedInfo": {"rank": rank, "world_size": 2}, "pid": 100 + rank}
            capture(tmp_path, f"vm_{100 + rank}.170000000000000000{at}.pt.trace.json", first=10 * at, begin_us=10 * STEP_US * at, **job)

    report = analyze([tmp_path])

    assert ranks(report) == {rank: f"vm_{100 + rank}.1700000000000000001.pt.trace.json" for rank in (0, 1)}
    assert health(report)["captures-of-one-process"][0] == 2
    assert "duplicate-ranks" not in health(report)
