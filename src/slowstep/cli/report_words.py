"""Stages, their parts and verdicts, as a report calls them, for who looks one up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from slowstep.part_words import part_in_words
from slowstep.parts import Part, PartKind
from slowstep.report.canvas import Canvas
from slowstep.stages import STAGE_MEANING, stage_in_words

# In the words of docs/definitions.md.
VERDICT_MEANING: Final = {
    "bottleneck": "a finding predicts 1.10x or more, and is sure of more than 1.03x at the pace of this run",
    "healthy": "no finding predicts 1.10x or more, all of them together predict less than that, less than 10 % of the time is "
    "unattributed, and every rule on a stage of 10 % or more could judge",
    "undetermined": "neither bottleneck nor healthy, or fewer than 30 steps were looked at. The report says why, and what to do to find "
    "out",
}
# Parts whose words do not say it all; in those of docs/definitions.md, too.
_PART_MEANING: Final = {
    PartKind.FORWARD_AND_REST: "what a step does between its input and its update beside the backward: the forward, the loss, and the "
    "loop's own lines there",
    PartKind.CORE_WAIT: "the training thread could run and had no core: others used them, its own workers and threads among them. It is a "
    "part of the stage in which it waits",
    PartKind.HELD_UP: "the training thread waited while other Python threads of its process ran: one at a time holds the GIL",
    PartKind.SAMPLES: "the data set's own code computes, in a worker or on the training thread, while the training waits for the batch",
    PartKind.COLLATE: "samples are put together into a batch while the training waits for it",
    PartKind.PRODUCER_CORE_WAIT: "what makes the batch that is waited for could run and had no core",
    PartKind.LOCK_WAIT: "what makes the batch waits while other threads of its process compute: a thread pool, or the GIL",
    PartKind.STORAGE: "what makes the batch waits for bytes from storage",
    PartKind.BLOCKED: "what makes the batch waits, and neither storage nor a thread is known to be why: a network, a lock, a sleep",
    PartKind.TRANSPORT: "a batch that a worker has made is received: 1 to 2 ms where it lay ready, which nothing removes",
    PartKind.LOADER_OVERHEAD: "what a request takes besides making the batch, in a loader without workers",
    PartKind.DRAWING: "the loader's sampler draws the next indices, on the training thread",
    PartKind.LOADER_START: "the loader is started: its workers, where it has some, and what they do before their first batch",
    PartKind.LOADER_END: "the loader's workers are ended, or what its iterator holds is freed",
    PartKind.INPUT_WAIT: "the training waits for its input, and how that was made is not known",
    PartKind.UNKNOWN: "whether the device worked or waited for the host is not known: shares then have a lower and an upper bound",
}
_RULES: Final = "Rules that may blame it"


def meaning(name: str) -> tuple[str, str, bool] | None:
    """The word as reports write it, what it means, and whether it is a stage; None for any other word."""
    word = name.strip().lower()
    if (stage := word.replace("-", "_").replace(" ", "_")) in STAGE_MEANING:
        return stage, STAGE_MEANING[stage], True
    if word in VERDICT_MEANING:
        return word.upper(), VERDICT_MEANING[word], False
    parts = {part_in_words(Part("", kind)): text for kind, text in _PART_MEANING.items()}
    return (word, parts[word], False) if word in parts else None


def word_page(word: str, text: str, rules: Sequence[str], width: int) -> str:
    """A word with its meaning, and the rules on it."""
    canvas = Canvas(width=width)
    canvas.prose(f"{text}.", label=f"{stage_in_words(word)}:", hang=2)
    if rules:
        canvas.blank()
        canvas.prose(", ".join(rules), label=f"{_RULES}:", hang=2)
        canvas.blank()
        canvas.prose("slowstep explain NAME tells more about one.")
    return canvas.text(color=False)


def rules_on(stage: str, rules: Iterable[str], stages_of: Callable[[str], Sequence[str] | None]) -> list[str]:
    """Those that name the stage among the few that they may blame."""
    return [rule for rule in rules if stage in (stages_of(rule) or ())]
