"""How long an experiment takes yet: as long as its intervals need, and no longer than its budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.prove.outcome import Interim
from slowstep.prove.stats.design import CONTROL, FIRST
from slowstep.prove.time_left import TimeLeft, time_left
from slowstep.workflow.prove_progress import widths_text


def interim(rounds: int, seconds: float, *widths: float) -> Interim:
    estimates: dict[int, Any] = {arm: SimpleNamespace(gain=SimpleNamespace(precision=width)) for arm, width in enumerate(widths, CONTROL)}
    return Interim(seconds=seconds, rounds=rounds, estimates=estimates)


@pytest.mark.parametrize(
    ("so_far", "left"),
    [
        (interim(0, 0.0), TimeLeft(round=1, rounds=8, seconds=60.0, is_known=False)),
        (interim(9, 10.0, 0.01), TimeLeft(round=10, rounds=10, seconds=50.0, is_known=False)),
        (interim(4, 8.0, 0.9, 0.04), TimeLeft(round=5, rounds=8, seconds=8.0, is_known=True)),
        # Twice as narrow takes four times the rounds, by the widest of the levers.
        (interim(8, 8.0, 0.9, 0.10, 0.01), TimeLeft(round=9, rounds=32, seconds=24.0, is_known=True)),
        (interim(10, 20.0, 0.9, 0.50), TimeLeft(round=11, rounds=30, seconds=40.0, is_known=True)),
        (interim(10, 60.0, 0.9, 0.50), TimeLeft(round=11, rounds=11, seconds=0.0, is_known=True)),
    ],
    ids=[
        "at the beginning",
        "without a lever's interval",
        "the fewest rounds",
        "until it is narrow",
        "until the budget ends",
        "at its end",
    ],
)
def test_it_follows_from_the_rounds_so_far(so_far: Interim, left: TimeLeft) -> None:
    assert time_left(so_far, precision=0.05, budget_s=60.0) == left


def test_with_one_lever_a_round_is_a_pair() -> None:
    left = time_left(interim(2, 4.0, 0.02, 0.12), precision=0.05, budget_s=60.0)

    told = [widths_text([("control", 1.5), ("workers=2", 0.12)], left, levers=levers) for levers in (1, 2)]

    assert told == [f"{word} 3 of 12, about 20 s left, gains known to within 12 % (workers=2)" for word in ("pair", "round")]
    early = time_left(interim(0, 0.0), precision=0.05, budget_s=60.0)
    assert widths_text([], early, levers=FIRST - 1) == "pair 1 of at least 8, up to 60 s left"
