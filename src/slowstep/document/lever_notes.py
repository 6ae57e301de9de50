"""What the report of a run says of the levers that it was asked for: with them its results are not those of the script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowstep.record.writing.format import LEVER_FAILED, LEVER_NOT_APPLICABLE, LEVER_ON


def lever_notes(asked: Iterable[str], said: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each lever of `--with`, from the `lever` notes of the training's process."""
    notes = list(said)
    return [_sentence(name, [note for note in notes if note.get("name") == name]) for name in asked]


def _sentence(name: str, notes: list[Mapping[str, Any]]) -> str:
    states = {str(note.get("state")): note for note in notes}
    ending = states.get(LEVER_FAILED) or states.get(LEVER_NOT_APPLICABLE)
    reason = None if ending is None else ending.get("reason")
    if LEVER_ON in states:
        first = (states[LEVER_ON].get("updates") or 0) + 1
        text = f"{name} was on from step {first} on: times and results are not those of the script as it is"
        return text if ending is None else f"{text}; it failed later and was undone ({reason})"
    if LEVER_NOT_APPLICABLE in states:
        return f"{name} was not on: not applicable, because {reason}"
    if LEVER_FAILED in states:
        return f"{name} was not on: it failed ({reason})"
    return f"{name} was never on: no step was seen after which it was ready"
