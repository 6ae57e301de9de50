"""The sentence of trainings in turn."""

from __future__ import annotations

import pytest

from slowstep.document.run_rows import InTurn
from slowstep.report.in_turn_line import in_turn_line

HOW = "record each alone, inside `with slowstep.record():`"


def training(steps: int, s: float, *, judged: bool = False, samples_per_s: float | None = None) -> InTurn:
    return {"steps": steps, "s": s, "samples_per_s": samples_per_s, "judged": judged}


@pytest.mark.parametrize("trainings", [[], [training(60, 2.0, judged=True)]], ids=["none", "one"])
def test_one_training_needs_no_sentence(trainings: list[InTurn]) -> None:
    assert in_turn_line(trainings) is None


def test_of_two_the_judged_one_and_the_other_are_named() -> None:
    line = in_turn_line([training(100, 1.0, samples_per_s=3200.0), training(60, 2.0, judged=True)])

    assert line == "2 in turn; the longest, the second, is judged. Not judged: the first, 100 steps in 1.00 s (3,200 samples/s): " + HOW


def test_of_many_what_is_cut_is_said() -> None:
    line = in_turn_line([training(60, 2.0, judged=True), *[training(50, 1.0)] * 6])

    assert line is not None
    assert line.endswith("; and 2 more: " + HOW)


@pytest.mark.parametrize(
    ("judged", "why"),
    [((30, 1.0), "the one with most steps"), ((60, 1.5), "the longest of those with enough steps")],
    ids=["none has enough", "a longer one has too few"],
)
def test_why_one_is_judged_that_is_not_the_longest(judged: tuple[int, float], why: str) -> None:
    line = in_turn_line([training(20, 2.0), training(*judged, judged=True), *[training(90, 1.0)] * (judged[0] == 60)])

    assert line is not None
    assert f"; {why}, the second, is judged" in line
