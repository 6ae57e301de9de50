from __future__ import annotations

import pytest

from slowstep.record.timing.schedule import Schedule


def test_each_task_is_done_at_the_first_look_and_then_once_its_period_has_passed() -> None:
    done: list[str] = []
    schedule = Schedule((10, lambda: done.append("often")), (30, lambda: done.append("seldom")))

    for at_ns in (1000, 1009, 1010, 1019, 1029, 1030):
        schedule.look(at_ns)
        done.append(str(at_ns))

    assert done == ["often", "seldom", "1000", "1009", "often", "1010", "1019", "often", "1029", "seldom", "1030"]


def test_what_a_task_raises_is_raised_and_the_task_is_not_done_again_at_once() -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("full")

    schedule = Schedule((10, fail), (10, lambda: done.append("after")))
    with pytest.raises(OSError, match="full"):
        schedule.look(1000)
    schedule.look(1005)

    assert done == ["after"]
