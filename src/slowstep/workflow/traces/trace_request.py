"""What `slowstep analyze` was asked of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slowstep.analyses.measure_trace import ChosenStep


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceRequest:
    """What the user said of the traces: which step to look at, and the batch size of a step."""

    step: ChosenStep = None
    batch_size: int | None = None
