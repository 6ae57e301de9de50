from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from made_events import Events
from made_recordings import MS
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import PartKind


def _trained(events: Events, inside: Callable[[float], None]) -> Measurements:
    """Steps of 20 ms with a backward of 10; `inside` adds what was recorded in the step that begins at its argument."""
    events.loader()
    for k in range(6):
        begin = 20.0 * k
        events.wait(begin, begin + 2, k)
        events.backward(begin + 5, begin + 15)
        inside(begin)
        events.update(begin + 15, begin + 20)
    return measure_recording(events.timeline(), warmup=0)


def _measured(folder: Path, **what: float) -> Measurements:
    events = Events(folder, rank=(0, 2))
    return _trained(events, lambda begin: events.backward_cpu(begin + 5, begin + 15, **what))


def _six_steps(events: Events, begin: float = 0.0) -> float:
    """Six plain steps from `begin` on, and when they end, in ms."""
    events.loader()
    for k in range(6):
        begin = events.step(begin, batch=k)
    return begin


def _mean_ms(m: Measurements, stage: str, *kinds: PartKind) -> float:
    return float(m.ledger.of(stage, *kinds).mean()) / MS


def test_blocked_time_in_backward_is_waiting_for_other_ranks(tmp_path: Path) -> None:
    m = _measured(tmp_path, cpu=3)

    assert _mean_ms(m, "gradient_sharing", PartKind.RANK_WAIT) == pytest.approx(7)
    assert _mean_ms(m, "compute", "backward") == pytest.approx(3)
    assert float(m.ledger.ns.sum()) == pytest.approx(float(m.step_ns.sum()))
    assert m.sharing.seen
    assert m.sharing.own_ns.mean() / MS == pytest.approx(13)


def test_time_in_which_the_thread_waited_for_a_core_is_no_waiting_for_ranks(tmp_path: Path) -> None:
    m = _measured(tmp_path, cpu=3, delay=7)

    assert _mean_ms(m, "gradient_sharing") == 0


def test_a_backward_that_computes_all_the_time_shares_nothing(tmp_path: Path) -> None:
    m = _measured(tmp_path, cpu=10.5)

    assert _mean_ms(m, "gradient_sharing") == 0
    assert m.sharing.seen


def test_without_the_run_queue_delay_nothing_is_estimated_and_that_is_known(tmp_path: Path) -> None:
    m = _measured(tmp_path, cpu=3, delay=-1)

    assert _mean_ms(m, "gradient_sharing") == 0
    assert not m.sharing.seen


def test_a_collective_inside_backward_is_not_counted_twice(tmp_path: Path) -> None:
    events = Events(tmp_path, rank=(0, 2))

    def inside(begin: float) -> None:
        events.backward_cpu(begin + 5, begin + 15, cpu=3)
        events.collective(begin + 6, begin + 11)

    m = _trained(events, inside)

    assert _mean_ms(m, "gradient_sharing", PartKind.COLLECTIVE) == pytest.approx(5)
    assert _mean_ms(m, "gradient_sharing", PartKind.RANK_WAIT) == pytest.approx(2)


def test_of_a_backward_within_a_backward_only_the_outer_one_counts(tmp_path: Path) -> None:
    events = Events(tmp_path, rank=(0, 2))

    def inside(begin: float) -> None:
        events.backward_cpu(begin + 6, begin + 10, cpu=1)
        events.backward_cpu(begin + 5, begin + 15, cpu=4)

    assert _mean_ms(_trained(events, inside), "gradient_sharing") == pytest.approx(6)


def test_with_an_accelerator_a_blocked_backward_waits_for_that(tmp_path: Path) -> None:
    events = Events(tmp_path, rank=(0, 2))
    events.trainer.lines.append({"kind": "facts", "cuda_available": True})
    m = _trained(events, lambda begin: events.backward_cpu(begin + 5, begin + 15, cpu=3))

    assert _mean_ms(m, "gradient_sharing") == 0
    assert not m.sharing.seen


@pytest.mark.parametrize(("cores", "ranks", "left"), [(4, 1, 4), (4, 2, 2), (2, 4, 0.5)])
def test_ranks_that_train_at_the_same_time_divide_the_cores(tmp_path: Path, cores: int, ranks: int, left: float) -> None:
    for i in range(ranks):
        events = Events(tmp_path, cores=cores, pid=100 + i, rank=(i, ranks))
        _six_steps(events)
        timeline = events.timeline()

    assert measure_recording(timeline, warmup=0, process=0).machine.cores == left
    assert measure_recording(timeline, warmup=0, process=0).machine.load.cores == cores


def test_trainings_one_after_the_other_have_all_cores(tmp_path: Path) -> None:
    for i in range(2):
        events = Events(tmp_path, cores=4, pid=100 + i)
        _six_steps(events, begin=1000.0 * i)
        timeline = events.timeline()

    assert measure_recording(timeline, warmup=0, process=0).machine.cores == 4


def test_what_other_launchers_of_the_job_use_is_not_called_foreign(tmp_path: Path) -> None:
    def made(**run: int) -> Measurements:
        events = Events(tmp_path, cores=2)
        events.launcher.lines[-1] |= run
        end = _six_steps(events)
        events.reading(15, 0, 0)
        events.reading(end - 15, end, 3 * end)
        return measure_recording(events.timeline(), warmup=0)

    assert made().machine.load.busy
    assert made(launchers=2, launcher_rank=0).machine.load.foreign_cores is None
