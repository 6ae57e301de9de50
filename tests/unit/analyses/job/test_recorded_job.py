from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events
from made_ranks import make_job
from slowstep.analyses.job.first_shown import first_shown
from slowstep.analyses.job.late_rank import RankComparison, compare_ranks
from slowstep.analyses.job.rank_steps import recorded_steps
from slowstep.analyses.job.recorded_job import recorded_job
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import SOURCE


def _held(folder: Path) -> tuple[int, RankComparison | None]:
    """Which rank is shown first, and how all of them stand."""
    timeline = SOURCE.read(folder)
    job = recorded_job(timeline, folder)
    measured = {rank.number: measure_recording(timeline, process=rank.process) for rank in job.ranks}
    steps = {number: known for number, m in measured.items() if (known := recorded_steps(m)) is not None}
    compared = compare_ranks(steps, job.size)
    return first_shown(job, {number: (m.steps.total, float(m.step_ns.mean())) for number, m in measured.items()}, compared), compared


def _waiting(folder: Path) -> list[int]:
    _, compared = _held(folder)
    return [] if compared is None else [number for number, each in compared.standings.items() if each.waits]


def test_the_rank_that_the_others_wait_for_is_shown_first(tmp_path: Path) -> None:
    make_job(tmp_path, [4.0, 12.0, 4.0])

    assert _held(tmp_path)[0] == 1
    assert _waiting(tmp_path) == [0, 2]


def test_of_equal_ranks_rank_0_is_shown(tmp_path: Path) -> None:
    make_job(tmp_path, [10.0, 10.3, 10.0])

    assert _held(tmp_path)[0] == 0
    assert _waiting(tmp_path) == []


def test_a_rank_that_only_waited_longer_for_a_core_is_not_called_slow(tmp_path: Path) -> None:
    shown, compared = _held(make_job(tmp_path, [5.0, 10.0], delay_ms=[0.0, 5.0]))

    assert shown == 0
    assert compared is not None
    assert not compared.is_uneven


def test_ranks_that_do_not_wait_for_each_other_are_not_compared(tmp_path: Path) -> None:
    for i, length in enumerate((10.0, 20.0)):
        events = Events(tmp_path, pid=100 + i, rank=(i, 2))
        events.loader()
        for k in range(60):
            begin = k * length
            events.wait(begin, begin + 1, k)
            events.backward(begin + 1, begin + length - 1)
            events.backward_cpu(begin + 1, begin + length - 1, cpu=length - 2)
            events.update(begin + length - 1, begin + length)
        events.close()

    assert _waiting(tmp_path) == []


def test_trainings_of_their_own_are_numbered_as_they_began_and_the_longest_is_shown(tmp_path: Path) -> None:
    for i, (begin, steps) in enumerate(((500.0, 6), (0.0, 9), (900.0, 5))):
        events = Events(tmp_path, pid=100 + i)
        events.loader()
        end = begin
        for k in range(steps):
            end = events.step(end, batch=k)
        events.close()
    job = recorded_job(SOURCE.read(tmp_path), tmp_path)

    assert [(rank.number, rank.pid) for rank in job.ranks] == [(0, 101), (1, 100), (2, 102)]
    assert (job.missing, job.idle, job.size) == ((), (), 1)
    assert _held(tmp_path)[0] == 0


@pytest.mark.parametrize(("longer", "shown"), [(1.05, 0), (1.5, 1)])
def test_of_trainings_with_as_many_steps_the_one_whose_steps_take_clearly_longer_is_shown(
    tmp_path: Path, longer: float, shown: int
) -> None:
    for i in range(2):
        events = Events(tmp_path, pid=100 + i)
        events.loader()
        for k in range(60):
            begin, length = 10.0 * k * (longer if i else 1.0), 10.0 * (longer if i else 1.0)
            events.wait(begin, begin + 1, k)
            events.update(begin + length - 1, begin + length)
        events.close()

    assert _held(tmp_path)[0] == shown


def test_ranks_without_a_recording_are_missing_and_those_without_an_update_idle(tmp_path: Path) -> None:
    make_job(tmp_path, [5.0, 5.0], size=4)
    Events(tmp_path, pid=300, rank=(2, 4)).close()
    job = recorded_job(SOURCE.read(tmp_path), tmp_path)

    assert (job.missing, job.idle, job.elsewhere) == ((3,), (2,), 0)


def test_of_very_many_missing_ranks_the_first_are_named_at_once(tmp_path: Path) -> None:
    job = recorded_job(SOURCE.read(make_job(tmp_path, [5.0, 5.0], size=2**60)), tmp_path)

    assert (job.missing, job.missing_count, job.elsewhere) == (tuple(range(2, 66)), 2**60 - 2, 0)


def test_ranks_of_other_machines_are_not_missing(tmp_path: Path) -> None:
    for rank in (2, 3):
        events = Events(tmp_path, pid=100 + rank, rank=(rank, 8))
        events.trainer.lines[0] |= {"env": {"LOCAL_WORLD_SIZE": "4", "RANK": str(rank)}}
        events.step(0)
        events.close()
    job = recorded_job(SOURCE.read(tmp_path), tmp_path)

    assert (job.missing, job.elsewhere) == ((0, 1), 4)


def test_under_launchers_of_their_own_no_rank_is_missing(tmp_path: Path) -> None:
    events = Events(tmp_path, rank=(0, 4))
    events.launcher.lines[-1] |= {"launchers": 4, "launcher_rank": 0}
    events.step(0)
    job = recorded_job(SOURCE.read(events.close()), tmp_path)

    assert (job.missing, job.elsewhere) == ((), 3)


def test_of_a_restarted_job_the_later_process_stands_for_the_rank(tmp_path: Path) -> None:
    make_job(tmp_path, [5.0, 5.0])
    earlier = Events(tmp_path, pid=50, rank=(0, 2))
    earlier.step(0)
    earlier.close()
    job = recorded_job(SOURCE.read(tmp_path), tmp_path)

    assert [(rank.number, rank.pid) for rank in job.ranks] == [(0, 100), (1, 101)]
    assert job.repeated == 1


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, 1),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "x", "WORLD_SIZE": "2"}, None),
        ("damaged", None),
        (None, None),
    ],
)
def test_without_a_process_group_the_environment_says_the_rank(tmp_path: Path, env: object, rank: int | None) -> None:
    events = Events(tmp_path)
    events.trainer.lines[0] |= {"env": env}

    assert events.timeline().processes[0].rank == rank
