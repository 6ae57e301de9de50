"""What the times of a step's operations come to: computing is what an operation takes in each step, and no chance of one."""

from __future__ import annotations

from slowstep.frameworks.tensorflow.inside._dispatches import TimedOperation, of_step, summed


def step(*operations: tuple[str, int], gap_ns: int = 10) -> list[TimedOperation]:
    """Operations of a name and so many ns of the processor, one after the other."""
    timed: list[TimedOperation] = []
    at = 0
    for name, ns in operations:
        timed.append((at, at + ns, at, at + ns, name))
        at += ns + gap_ns
    return timed


SMALL = [("Mul", 100)] * 20


def test_a_step_without_operations_has_none():
    assert (summed([])["operations"], summed([])["low_ns"]) == (0, 0)


def test_what_asks_for_input_is_no_operation_of_the_step():
    found = summed(step(("IteratorGetNext", 5000), *SMALL))

    assert (found["operations"], found["operations_cpu_ns"]) == (20, 2000)
    # Python comes between all of them.
    assert found["gaps_ns"] == 200


def test_what_one_operation_takes_longer_in_one_step_alone_is_no_computing():
    before, now = step(*SMALL, ("Mul", 100)), step(*SMALL, ("Mul", 9100))

    assert summed(now)["above_four_times_ns"] == 8700
    found = summed(now, before=of_step(before))

    assert (found["above_low_ns"], found["above_four_times_ns"]) == (0, 0)
    assert found["operations_cpu_ns"] == 11_100


def test_what_it_takes_longer_in_each_is():
    large = step(*SMALL, ("MatMul", 9100))

    assert summed(large, before=of_step(large))["above_sixteen_times_ns"] == 7500


def test_steps_of_other_operations_tell_nothing_of_each_other():
    now = step(*SMALL, ("MatMul", 9100))

    assert summed(now, before=of_step(step(*SMALL, ("Mul", 100)))) == summed(now)
