"""The sentence of trainings in turn."""

from __future__ import annotations

import pytest

from slowstep.report.document import InTurn
from slowstep.report.in_turn_line import in_turn_line


def training(steps: int, s: float, *, judged: bool = False, samples_per_s: float | None = None) -> InTurn:
    return {"steps": steps, "s": s, "samples_per_s": samples_per_s, "judged": judged}


@pytest.mark.parametrize("trainings", [[], [training(60, 2.0, judged=True)]], ids=["none", "one"])
def test_one_training_needs_no_sentence(trainings: list[InTurn]) -> None:
    assert in_turn_line(trainings) is None


def test_of_two_the_judged_one_and_the_other_are_named() -> None:
    line = in_turn_line([training(100, 1.0, samples_per_s=3200.0), training(60, 2.0, judged=True)])

    assert line == "2 in turn; the longest, the second, is judged. Not judged: the first, 100 steps in 1.00 s (3,200 samples/s)"


def test_of_many_what_is_cut_is_said() -> None:
    line = in_turn_line([training(60, 2.0, judged=True), *[training(50, 1.0)] * 6])

    assert line is not None
    assert line.endswith("; and 2 more")
