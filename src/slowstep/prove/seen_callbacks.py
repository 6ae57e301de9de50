"""The callbacks of a trainer that a recording has seen at work, by the names that `callbacks-off` takes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from slowstep.parts import PartKind
from slowstep.record.framework import steering_callbacks

CALLBACKS_OFF: Final = "callbacks-off"


def steers(name: str) -> bool:
    """Whether a callback is, by its name, one that the lever leaves as it is: it steers the training, or writes checkpoints."""
    return name in steering_callbacks() or "Checkpoint" in name or name.endswith(("EarlyStopping", "EarlyStoppingCallback"))


def callbacks_seen(ledger: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Their classes, most time first: of `Plot.on_train_batch_end` it is `Plot`."""
    shares: defaultdict[str, float] = defaultdict(float)
    for part in (part for row in ledger for part in row["parts"]):
        if part["kind"] in (PartKind.CALLBACK, PartKind.PROGRESS_BAR):
            shares[part["subject"].partition(".")[0]] += part["share"] or 0.0
    return tuple(sorted(shares, key=lambda name: -shares[name]))
