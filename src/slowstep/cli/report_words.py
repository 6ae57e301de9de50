"""Stages and verdicts, as a report calls them, for who looks one up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from slowstep.report.canvas import Canvas
from slowstep.stages import STAGE_MEANING

# In the words of docs/definitions.md.
VERDICT_MEANING: Final = {
    "bottleneck": "a finding predicts 1.10x or more, and is sure of more than 1.03x at the pace of this run",
    "healthy": "no finding predicts 1.10x or more, all of them together predict less than that, less than 10 % of the time is "
    "unattributed, and every rule on a stage of 10 % or more could judge",
    "undetermined": "neither bottleneck nor healthy, or fewer than 30 steps were looked at. The report says why, and what to do to find "
    "out",
}
_RULES: Final = "Rules that may blame it"


def meaning(name: str) -> tuple[str, str, bool] | None:
    """The word as reports write it, what it means, and whether it is a stage; None for any other word."""
    word = name.strip().lower().replace("-", "_")
    if word in STAGE_MEANING:
        return word, STAGE_MEANING[word], True
    return (word.upper(), VERDICT_MEANING[word], False) if word in VERDICT_MEANING else None


def word_page(word: str, text: str, rules: Sequence[str], width: int) -> str:
    """A word with its meaning, and the rules on it."""
    canvas = Canvas(width=width)
    canvas.prose(f"{text}.", label=f"{word}:", hang=2)
    if rules:
        canvas.blank()
        canvas.prose(", ".join(rules), label=f"{_RULES}:", hang=2)
        canvas.blank()
        canvas.prose("slowstep explain NAME tells more about one.")
    return canvas.text(color=False)


def rules_on(stage: str, rules: Iterable[str], stages_of: Callable[[str], Sequence[str] | None]) -> list[str]:
    """Those that name the stage among the few that they may blame."""
    return [rule for rule in rules if stage in (stages_of(rule) or ())]
