"""After a recording from within that left its verdict undetermined: its command is the notebook's server, or a prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slowstep.analyses.steps.steps import ENOUGH_STEPS
from slowstep.command_words import prove
from slowstep.document.next_step import NextStep
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.record.writing.format import IN_SCRIPT

if TYPE_CHECKING:
    from slowstep.diagnosis.law import Diagnosis
    from slowstep.timeline.run_facts import Session

# What to change for a lever with a value.
_BY_HAND: Final = {"workers": Remedy.WORKERS, "prefetch": Remedy.PREFETCH}
_LEVER: Final = re.compile(r"(?P<name>[a-z-]+)=(?P<value>\d+)")


def after_session(
    session: Session, diagnosis: Diagnosis, *, words: Words, steps: int, is_alone: bool, enough: int = ENOUGH_STEPS
) -> NextStep:
    """What to do first where the same again would tell no more (None: nothing), and what to type then, after `steps` recorded steps.

    `enough` are as many as are asked for. `is_alone` where no other ranks train with this one: a script of its own can then be tried by
    `slowstep prove`.
    """
    first = diagnosis.change or _instead_of(diagnosis.deciding_levers, words, is_alone=is_alone)
    how = ["with that done"] if first is not None else []
    if steps < enough:
        how.append(f"{enough} steps or more")
    elif first is None:
        how.append(f"longer than these {steps:,} steps")
    if session.kind != IN_SCRIPT:
        how.append("in one cell or command")
    return NextStep(first=first, command=f"with slowstep.record(): ({', '.join(how)})", in_python=True)


def _instead_of(levers: str | None, words: Words, *, is_alone: bool) -> str | None:
    """What tells the same as an experiment with these levers, which a session cannot make; None where nothing is known to."""
    if levers is None:
        return None
    by_hand = _by_hand(levers, words)
    script = f"put the training into a script: {prove('python SCRIPT', '--levers', levers)}" if is_alone else None
    return ", or ".join(filter(None, (by_hand, script))) or None


def _by_hand(levers: str, words: Words) -> str | None:
    found = _LEVER.fullmatch(levers)
    if found is None:
        return None
    name, value = found["name"], int(found["value"])
    if name in _BY_HAND:
        return f"try {words.write({_BY_HAND[name]: value}) or levers}"
    by_hand = {"batch-size": f"try batch size {value}", "threads": f"try {words.advise(Remedy.THREADS, threads=value)}"}
    return by_hand.get(name)
