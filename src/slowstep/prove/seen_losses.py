"""Whether slowstep sees the losses of a training, and what is said where it does not: nobody is to wait for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from slowstep.frameworks._known import all_words
from slowstep.reasons import Reason, Wording
from slowstep.sources._recording.notes import read_notes

NEVER: Final = Wording("losses-never-seen", "slowstep does not see those of this training: {why}")
UNSEEN: Final = Wording("losses-unseen", "in {updates:count update} none was seen, and none is to be expected: {why}")
_NOBODY: Final = "the framework does not tell them"


def why_never(folder: Path) -> Reason | None:
    """Why nobody need look for losses, by what the frameworks that trained have said in a recording; None where they may be seen."""
    said = {note.get("framework"): note for path in sorted(folder.glob("*-*.jsonl")) for note in read_notes(path).of("facts")}
    if not said or any(note.get("losses") is not False for note in said.values()):
        return None
    names = sorted({str(note.get("computes_with") or name) for name, note in said.items()})
    return NEVER(why=" and ".join(map(_why, names)))


def why_unseen(notes: Sequence[Mapping[str, Any]]) -> Reason | None:
    """The same by the notes of a run that was asked for losses; None where it has not said that it sees none."""
    return UNSEEN(updates=notes[-1]["updates"], why=_why(str(notes[-1]["framework"]))) if notes else None


def _why(framework: str) -> str:
    words = all_words().get(framework)
    return (words.no_losses if words is not None else "") or _NOBODY
