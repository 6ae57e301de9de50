"""What `slowstep bench` was asked for, and how its measuring may end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from slowstep.workflow.usual import USUAL_BUDGET_S

Half = Literal["data", "compute"]


class BenchEndedBy(StrEnum):
    """How its measuring ended, as the report says it."""

    DONE = "done"
    SCRIPT_ENDED = "script ended"
    NEVER_TRAINED = "never trained"
    INTERRUPTED = "interrupted"
    STOOD_STILL = "stood still"


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchRequest:
    """What was asked for; `budget_s` is for the measuring, the script's start and first updates come before it."""

    what: Half
    words: tuple[str, ...]
    budget_s: float = USUAL_BUDGET_S
    out: str | None = None
    allow_writes: bool = False
    sandbox: str | None = None
    seed: int | None = None
