"""The trainings that follow one another in a script, in a sentence: which of them is judged, and what the others are."""

from __future__ import annotations

from typing import Final

from slowstep.document.run_rows import InTurn
from slowstep.units import format_count, format_duration, format_rate

_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
# Others that are told one by one; report.json has all.
_TOLD: Final = 4
_HOW: Final = "record each alone, inside `with slowstep.record():`"


def in_turn_line(trainings: list[InTurn]) -> str | None:
    """`5 trainings in turn; the third, the longest, is judged. Others: ...`; None where there is one, or they are not told one by one."""
    at = next((number for number, each in enumerate(trainings) if each["judged"]), None)
    if at is None or len(trainings) < 2:
        return None
    why = _why(trainings, trainings[at])
    others = [f"the {_ordinal(number)}, {_steps_and_speed(each)}" for number, each in enumerate(trainings) if number != at]
    more = f"; and {len(others) - _TOLD} more" if len(others) > _TOLD else ""
    return f"{len(trainings)} in turn; {why}, the {_ordinal(at)}, is judged. Not judged: {'; '.join(others[:_TOLD])}{more}: {_HOW}"


def _why(trainings: list[InTurn], judged: InTurn) -> str:
    if judged["s"] == max(each["s"] for each in trainings):
        return "the longest"
    # Where none has enough steps for a verdict, the one with most of them is judged.
    has_most = judged["steps"] == max(each["steps"] for each in trainings)
    return "the one with most steps" if has_most else "the longest of those with enough steps"


def _steps_and_speed(training: InTurn) -> str:
    rate = "" if training["samples_per_s"] is None else f" ({format_rate(training['samples_per_s'], 'samples')})"
    return f"{format_count(training['steps'], 'step')} in {format_duration(training['s'] * 1e9)}{rate}"


def _ordinal(number: int) -> str:
    return _ORDINALS[number] if number < len(_ORDINALS) else f"{number + 1}th"
