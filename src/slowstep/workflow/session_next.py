"""What to do next where a recording from within left its verdict undetermined: its command is the notebook's server, or a prompt."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from slowstep.analyses.steps import ENOUGH_STEPS
from slowstep.workflow.place import Place

if TYPE_CHECKING:
    from slowstep.diagnosis.law import Diagnosis
    from slowstep.timeline.timeline import Session

# What to write for a lever, whose value follows.
_BY_HAND: Final = {
    "batch-size": "batch size ",
    "workers": "num_workers=",
    "prefetch": "prefetch_factor=",
    "threads": "torch.set_num_threads",
}
_LEVER: Final = re.compile(r"(?P<name>[a-z-]+)=(?P<value>\d+)")


def session_next(session: Session, diagnosis: Diagnosis, *, steps: int, is_alone: bool) -> tuple[str | None, str]:
    """What to do first where the same again would tell no more (None: nothing), and what to type then, after `steps` recorded steps.

    `is_alone` where no other ranks train with this one: a script of its own can then be tried by `slowstep prove`.
    """
    first = diagnosis.change or _instead_of(diagnosis.telling, is_alone=is_alone)
    how = ["with that done"] if first is not None else []
    if steps < ENOUGH_STEPS:
        how.append(f"{ENOUGH_STEPS} steps or more")
    elif first is None:
        how.append(f"longer than these {steps:,} steps")
    if session.kind != Place.words:
        how.append("in one cell or command")
    return first, f"with slowstep.record(): ({', '.join(how)})"


def _instead_of(levers: str | None, *, is_alone: bool) -> str | None:
    """What tells the same as an experiment with these levers, which a session cannot make; None where nothing is known to."""
    if levers is None:
        return None
    by_hand = _by_hand(levers)
    script = f"put the training into a script: slowstep prove --levers {shlex.quote(levers)} python SCRIPT" if is_alone else None
    return ", or ".join(filter(None, (by_hand, script))) or None


def _by_hand(levers: str) -> str | None:
    found = _LEVER.fullmatch(levers)
    if found is None or found["name"] not in _BY_HAND:
        return None
    value = f"({found['value']})" if found["name"] == "threads" else found["value"]
    return f"try {_BY_HAND[found['name']]}{value}"
