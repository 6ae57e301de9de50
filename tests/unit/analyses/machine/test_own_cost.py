from __future__ import annotations

from typing import Any

import pytest

from made_events import Events, at
from made_recordings import MS, Writer
from slowstep.analyses.machine.own_cost import OwnCost, find_own_cost
from slowstep.analyses.steps.captures import Capture
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.record.writing import format as fmt


def a_second_of_training(events: Events) -> None:
    """Eleven updates, a step of 100 ms each."""
    for k in range(11):
        events.step(100 * k)
    cost_line(events.trainer, events=1000, event_ns=2000, sampler_cpu_ns=3 * MS)


def cost_line(writer: Writer, **line: Any) -> None:
    # So many were only counted.
    writer.lines.append({"kind": "cost", "records": 0, **line})


def launcher_used(events: Events, when: float, cpu_ms: float) -> None:
    events.launcher.event(fmt.READING_COST, at(when), at(when), cpu_ms * MS, thread=1)


def found(events: Events) -> OwnCost | None:
    timeline = events.timeline()
    return find_own_cost(timeline, find_trainer(timeline), steps=10)


def test_events_and_sampler_are_divided_among_the_steps(tmp_path):
    events = Events(tmp_path)
    a_second_of_training(events)

    cost = found(events)

    assert cost is not None
    assert cost.ns_per_step == pytest.approx(0.5 * MS)
    assert cost.share == pytest.approx(5 / 1000)


def test_what_is_spent_once_is_no_part_of_the_cost_of_a_step(tmp_path):
    events = Events(tmp_path)
    a_second_of_training(events)
    events.trainer.lines[-1] |= {"sampler_cpu_ns": 53 * MS, "once_cpu_ns": 50 * MS}

    cost = found(events)

    assert cost is not None
    assert (cost.ns_per_step, cost.once_ns) == (pytest.approx(0.5 * MS), 50 * MS)
    assert cost.share == pytest.approx(5 / 1000)


def test_what_the_sampler_used_before_the_first_update_is_no_part_of_the_cost_of_a_step(tmp_path):
    """A model that is compiled takes a minute, of stacks that are deep."""
    events = Events(tmp_path)
    a_second_of_training(events)
    first, last = events.trainer.lines.pop(), at(1010)
    cost_line(events.trainer, at_ns=at(-100), events=0, event_ns=2000, sampler_cpu_ns=90 * MS, once_cpu_ns=20 * MS)
    cost_line(events.trainer, at_ns=at(10), events=10, event_ns=2000, sampler_cpu_ns=100 * MS, once_cpu_ns=20 * MS)
    events.trainer.lines.append(first | {"at_ns": last, "sampler_cpu_ns": 123 * MS, "once_cpu_ns": 40 * MS})

    cost = found(events)

    assert cost is not None
    assert cost.ns_per_step == pytest.approx(0.5 * MS)
    assert cost.share == pytest.approx(5 / 1000)


def test_of_a_killed_process_the_records_count_and_not_what_it_last_said(tmp_path):
    events = Events(tmp_path)
    a_second_of_training(events)
    events.trainer.lines[-1] |= {"events": 1, "sampler_cpu_ns": 0, "once_cpu_ns": 50 * MS}

    cost = found(events)

    assert cost is not None
    assert cost.ns_per_step == pytest.approx(len(events.trainer.records) * 2000 / 10)
    assert len(events.trainer.records) > 1


def test_workers_count_in_the_share_and_not_in_the_training_process(tmp_path):
    events = Events(tmp_path)
    a_second_of_training(events)
    events.loader(workers=1)
    events.fetch(0, 5, 0, worker=0, cpu=4)
    cost_line(events.workers[0], events=500, event_ns=2000, sampler_cpu_ns=0)

    cost = found(events)

    assert cost is not None
    assert cost.ns_per_step == pytest.approx(0.5 * MS)
    assert cost.share == pytest.approx(6 / 1000)


def test_of_the_launcher_only_what_it_used_during_the_training_counts(tmp_path):
    events = Events(tmp_path)
    a_second_of_training(events)
    launcher_used(events, -1000, 0)
    launcher_used(events, 10, 100)
    launcher_used(events, 1010, 102)
    launcher_used(events, 3000, 500)

    cost = found(events)

    assert cost is not None
    assert cost.share == pytest.approx(7 / 1000)


def test_without_a_calibrated_cost_it_is_unknown(tmp_path):
    events = Events(tmp_path)
    events.step(0)
    events.step(100)

    assert found(events) is None


def test_what_recording_costs_another_rank_is_not_this_ones(tmp_path):
    other = Events(tmp_path, pid=101, rank=(1, 2))
    a_second_of_training(other)
    other.close()
    events = Events(tmp_path, rank=(0, 2))
    a_second_of_training(events)

    cost = found(events)

    assert cost is not None
    assert cost.share == pytest.approx(5 / 1000)


def test_the_share_is_made_of_its_parts_and_recording_is_told_from_the_profiler(tmp_path):
    events = Events(tmp_path)
    a_second_of_training(events)
    launcher_used(events, 0, 10)
    launcher_used(events, 1000, 14)
    timeline = events.timeline()
    captured = Capture(file="x", reason=None, first=1, last=2, begin_ns=0, end_ns=1, extra_ns=90.0 * MS)

    cost = find_own_cost(timeline, find_trainer(timeline), 10, captured)

    assert cost is not None
    assert cost.parts == pytest.approx({"hooks": 0.002, "stacks": 0.003, "monitors": 0.004, "profiler": 0.09}, rel=0.02)
    assert (cost.share, cost.limited_share) == (pytest.approx(0.099, rel=0.02), pytest.approx(0.009, rel=0.02))


def test_the_timing_of_calls_is_bounded_and_no_part_of_the_share(tmp_path):
    events = Events(tmp_path)
    a_second_of_training(events)
    function = {"file": "train.py", "function": "fit", "first_line": 1, "line": 1, "total_ns": 5, "own_ns": 5, "callees": []}
    timed = {"kind": "calls", "stretches": 2, "slowdown": 4.0, "functions": [function]}
    events.trainer.lines += [{**timed, "of": "gap", "wall_ns": 8 * MS}, {**timed, "of": "body", "wall_ns": 4 * MS, "slowdown": 2.0}]

    cost = found(events)

    assert cost is not None
    assert cost.timing_share == pytest.approx(0.008)
    assert cost.share == pytest.approx(5 / 1000)


@pytest.mark.parametrize(("step_ms", "limit"), [(20.0, 0.005), (2.4, 0.005), (1.2, 0.01), (0.12, 0.1)])
def test_the_limit_is_half_a_percent_and_of_short_steps_what_an_empty_one_may_cost(step_ms, limit):
    assert OwnCost(ns_per_step=0.0, share=0.0, once_ns=0.0).limit_share(step_ms * MS) == pytest.approx(limit)
