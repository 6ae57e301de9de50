from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import MS, TRAINER_THREAD
from slowstep.analyses.machine.own_cost import find_own_cost
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.timeline.timeline import Timeline
from slowstep.workflow.diagnose_recordings import diagnose_recording

# Three cells: 40 steps, 60 steps, 5 steps, with an hour before the second and ten seconds before the third.
HOUR_MS = 3_600_000.0
CELLS = ((40, 0.0), (60, HOUR_MS), (5, HOUR_MS + 11_000))


def session(folder: Path, *, thread: int = TRAINER_THREAD, prompts: bool = True) -> Events:
    events = Events(folder)
    events.loader()
    run = next(line for line in events.launcher.lines if line["kind"] == "run")
    run |= {"started_in": "a notebook", "recorded_from_ns": at(0), "thread": thread}
    batch = 0
    for steps, begin in CELLS:
        for k in range(steps):
            events.step(begin + 10 * k, batch=batch)
            batch += 1
        if prompts:
            events.launcher.lines.append({"kind": "prompt", "at_ns": at(begin + 10 * steps + 5)})
    return events


def timeline(events: Events) -> Timeline:
    return events.timeline()


def test_the_cell_with_most_updates_is_looked_at(tmp_path):
    trainer = find_trainer(timeline(session(tmp_path)))

    assert len(trainer.update_end_ns) == 60
    assert trainer.other_cells == 45
    assert trainer.waits.height == 60
    assert trainer.update_end_ns[0] > at(HOUR_MS)


def test_the_time_between_cells_is_in_no_step(tmp_path):
    report = diagnose_recording(session(tmp_path).close())

    assert report["throughput"]["step_ms"]["p95"] == pytest.approx(10, rel=0.01)
    assert report["run"]["steps"] / report["throughput"]["steps_per_s"] < 1
    assert "(60; 45 in others)" in report["run"]["notes"][-1]
    assert report["run"]["startup_s"] is None


def test_of_two_cells_with_as_many_the_later_one_is_looked_at(tmp_path):
    events = session(tmp_path)
    for k in range(20):
        events.step(2 * HOUR_MS + 10 * k, batch=200 + k)
    events.launcher.lines.append({"kind": "prompt", "at_ns": at(2 * HOUR_MS + 205)})
    for k in range(60):
        events.step(3 * HOUR_MS + 10 * k, batch=300 + k)

    trainer = find_trainer(timeline(events))

    assert len(trainer.update_end_ns) == 60
    assert trainer.update_end_ns[0] > at(3 * HOUR_MS)


@pytest.mark.parametrize("case", ["another thread", "no prompts"])
def test_a_training_that_no_prompt_divides_is_whole(tmp_path, case):
    events = session(tmp_path, thread=7 if case == "another thread" else TRAINER_THREAD, prompts=case == "another thread")

    trainer = find_trainer(timeline(events))

    assert (len(trainer.update_end_ns), trainer.other_cells) == (105, 0)


def test_a_later_look_at_the_loader_lengthens_no_step(tmp_path):
    events = Events(tmp_path)
    events.loader()
    run = next(line for line in events.launcher.lines if line["kind"] == "run")
    run |= {"started_in": "a notebook", "recorded_from_ns": at(0), "thread": TRAINER_THREAD}
    for k in range(40):
        events.step(10 * k, batch=k)
    events.launcher.lines.append({"kind": "prompt", "at_ns": at(410)})
    events.wait(HOUR_MS, HOUR_MS + 1, batch=40)

    report = diagnose_recording(events.close())

    assert report["run"]["steps"] / report["throughput"]["steps_per_s"] < 1


def test_the_cost_of_other_cells_is_theirs(tmp_path):
    events = session(tmp_path)
    events.trainer.lines.append({"kind": "cost", "events": 1050, "records": 0, "event_ns": 2000, "sampler_cpu_ns": 0})
    whole = timeline(events)

    cost = find_own_cost(whole, find_trainer(whole), steps=60)

    assert cost is not None
    assert cost.ns_per_step == pytest.approx(10 * 2000)
    assert cost.share == pytest.approx(600 * 2000 / (590 * MS), rel=0.01)


def test_a_report_of_a_session_that_must_be_repeated_says_how(tmp_path):
    report = diagnose_recording(session(tmp_path).close())

    assert report["verdict"]["state"] == "undetermined"
    assert report["run"]["next_command"].startswith("with slowstep.record():")
