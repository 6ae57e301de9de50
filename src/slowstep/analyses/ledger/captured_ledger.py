"""The account of a recording, with what a capture of a few steps shows of the time that hooks take for compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.parts import Part, PartKind

# What hooks cannot see apart, and in which stage the recording has that time.
UNSEEN_BY_HOOKS: Final = ("h2d", "d2h", "gradient_sharing")
_HOLDER: Final = "compute"


def with_captured_ledger(ledger: Ledger, captured: Ledger) -> Ledger:
    """The same account, in which every step's compute gives up as much for those stages as the captured steps have of them.

    Stages that the recording has seen stay as they are, and none gets more than the compute held. One that the capture has nothing of has
    a part of no length: it is known to take none.
    """
    compute = left = ledger.share(_HOLDER)
    added: dict[Part, float] = {}
    if not compute:
        return ledger
    for stage in UNSEEN_BY_HOOKS:
        if not ledger.total(stage):
            share = min(captured.share(stage), left)
            added[Part(stage, PartKind.FROM_CAPTURE)] = share
            left -= share
    kept = np.array([left / compute if part.stage == _HOLDER else 1.0 for part in ledger.parts])[:, np.newaxis]
    rows = np.array([added[part] for part in added]).reshape(-1, 1) / compute * ledger.of(_HOLDER)
    return replace(
        ledger,
        parts=(*ledger.parts, *added),
        ns=np.vstack([ledger.ns * kept, rows]),
        low=None if ledger.low is None else np.vstack([ledger.low * kept, rows]),
        high=None if ledger.high is None else np.vstack([ledger.high * kept, rows]),
    )
