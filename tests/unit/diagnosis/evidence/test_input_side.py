"""What producers that compute less spare the training beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slowstep.diagnosis.evidence.input.input_side import (
    NOT_WARMED,
    WARMED_EXPECTED,
    WARMED_OPTIMISTIC,
    InputSide,
    cores_left_by_others,
    relieved_ns,
    relieved_queue_ns,
    warmed_ns,
    workers_needed,
)

QUEUED = np.array([4.0, 6.0])


def side(*, cpu_ns: float = 20.0, others_cpu_ns: float = 0.0) -> InputSide:
    return InputSide(
        removable_ns=np.zeros(2),
        filling_ns=np.zeros(2),
        startup_ns=0.0,
        rest_ns=50.0,
        queued_ns=QUEUED,
        own_queued_ns=np.zeros(2),
        others_cpu_ns=others_cpu_ns,
        wall_ns=25.0,
        cpu_ns=cpu_ns,
        trainer_cpu_ns=40.0,
        cores=2.0,
    )


@pytest.mark.parametrize(
    ("spared", "others", "freed"),
    [(20, 0, QUEUED), (10, 0, QUEUED / 2), (20, 20, QUEUED / 2), (0, 0, 0 * QUEUED), (30, 0, QUEUED)],
    ids=["all", "half", "beside others as much", "nothing", "no more than there is"],
)
def test_waiting_for_a_core_goes_with_what_computes_beside_it(spared, others, freed):
    assert relieved_ns(side(others_cpu_ns=others), spared, slowed=0.0, queued=1.0) == pytest.approx(freed)


def test_at_worse_less_of_it_goes():
    assert relieved_ns(side(), 20.0, slowed=0.0, queued=0.5) == pytest.approx(QUEUED / 2)


def test_what_is_left_was_slowed_too():
    assert relieved_ns(side(), 20.0, slowed=0.1, queued=1.0) == pytest.approx(QUEUED + 0.1 * (50 - QUEUED))


def test_producers_that_compute_nothing_spare_nothing():
    assert relieved_ns(side(cpu_ns=0.0), 0.0, slowed=0.0, queued=1.0) == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize(
    ("warmed", "spared", "shorter"),
    [(WARMED_EXPECTED, 100.0, 5.0), (WARMED_EXPECTED, 1000.0, 0.25 * 50), (WARMED_OPTIMISTIC, 100.0, 10.0), (NOT_WARMED, 100.0, 0.0)],
    ids=["as expected", "no more than a quarter of it", "at best", "at worse"],
)
def test_work_after_a_batch_that_takes_less_is_shorter_too(warmed, spared, shorter):
    assert warmed_ns(side(), np.array([0.0, spared]), warmed) == pytest.approx([0.0, shorter])


def test_what_is_relieved_of_the_queue_is_what_goes_of_it_and_what_slowed_the_rest_of_it():
    assert relieved_queue_ns(side(), 10.0, slowed=0.0, queued=1.0) == pytest.approx(QUEUED / 2)
    assert relieved_queue_ns(side(), 10.0, slowed=0.1, queued=1.0) == pytest.approx(QUEUED / 2 + 0.1 * QUEUED / 2)


@pytest.mark.parametrize(
    ("foreign_ns", "queued_ns", "workers", "cores"),
    [
        (0.0, 0.0, 1, 2.0),
        # Two threads of the training's beside one that always computes.
        (50.0, 0.0, 1, 4 / 3),
        # A few per cent of a core leave the rest: nobody waited.
        (5.0, 0.0, 1, 1.9),
        # Half of the time it waited for its core: one other on each, and two more beside one that is always at work.
        (75.0, 25.0, 1, 2 * 2 / (2 + 3)),
        (75.0, 25.0, 5, 2 * 6 / (6 + 3)),
    ],
    ids=["alone", "one other", "hardly any", "three others", "three others, more workers"],
)
def test_training_and_workers_share_the_cores_evenly_with_threads_of_others(foreign_ns, queued_ns, workers, cores):
    beside = replace(side(others_cpu_ns=foreign_ns), queued_ns=np.full(2, queued_ns))

    assert cores_left_by_others(beside, workers) == pytest.approx(cores)


@pytest.mark.parametrize(
    ("in_loop", "cores"), [(True, 2 * 2 / (2 + 3)), (False, 2 * 2 / (2 + 1.5))], ids=["the training thread", "workers"]
)
def test_what_producers_waited_for_a_core_tells_of_others_beside_the_training_thread_where_that_is_the_producer(in_loop, cores):
    made = replace(side(others_cpu_ns=75.0), queued_ns=np.zeros(2), delay_ns=25.0, in_loop=in_loop)

    assert cores_left_by_others(made, 1) == pytest.approx(cores)


@pytest.mark.parametrize(("delay_ns", "workers"), [(0.0, 6), (30.0, 3), (40.0, 2)], ids=["blocked", "partly a core's", "a core's"])
def test_a_wait_for_a_core_is_no_reason_for_more_workers_than_cores(delay_ns, workers):
    made = replace(side(cpu_ns=20.0), wall_ns=60.0, rest_ns=5.0, delay_ns=delay_ns)

    assert workers_needed(made, 0) == workers
