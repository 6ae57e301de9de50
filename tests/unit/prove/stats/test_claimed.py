"""What three runs say of a lever that claims the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowstep.prove.stats.claimed import compare_claimed
from slowstep.prove.stats.losses import UpdateLosses

STEPS = 40


def run(*, steps: int = STEPS, off: float = 0.0, off_from: int = 1, other_from: int | None = None, seen: bool = True) -> UpdateLosses:
    inputs = np.arange(1, steps + 1) if seen else np.full(steps, -1)
    if other_from is not None:
        inputs[other_from - 1 :] += 1000
    loss = 1.0 / np.arange(1, steps + 1)
    loss[off_from - 1 :] += off
    return UpdateLosses(loss=loss, passes=np.ones(steps, np.int64), inputs=inputs)


@pytest.mark.parametrize(
    ("again", "changed", "found"),
    [
        (run(), run(steps=50), (True, True, True, None, True)),
        (run(off=1e-9), run(off=1e-9), (True, False, False, None, True)),
        (run(), run(off=1e-9), (True, True, False, None, False)),
        (run(), run(off=1e-9, off_from=21), (True, True, False, None, True)),
        (run(), run(other_from=3), (False, True, True, 3, False)),
        (run(), run(other_from=21), (False, True, True, 21, True)),
        (run(other_from=3), run(), (None, True, True, None, True)),
        (run(seen=False), run(seen=False), (None, True, True, None, True)),
        (run(steps=5), run(), (True, False, False, None, True)),
    ],
    ids=[
        *("the same", "losses never repeat", "other losses", "dropout anew", "other input", "shuffled anew", "input never repeats"),
        *("no loader", "too few steps"),
    ],
)
def test_it_holds_where_all_is_the_same_that_repeats_without_it(again: UpdateLosses, changed: UpdateLosses, found: Any) -> None:
    told = compare_claimed(run(), again, changed)

    assert (told.same_input, told.repeats, told.bitwise_equal, told.first_other, told.holds) == found
    assert told.as_row()["says"]


def test_losses_that_are_not_known_say_nothing() -> None:
    unknown = UpdateLosses(loss=np.zeros(STEPS), passes=np.zeros(STEPS, np.int64), inputs=np.arange(1, STEPS + 1))

    told = compare_claimed(unknown, unknown, unknown)

    assert (told.same_input, told.repeats, told.bitwise_equal) == (True, False, False)
