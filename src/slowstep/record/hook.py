"""What a hook is: one thing of a framework that is recorded, installed from outside and taken away again without a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from slowstep.record.patch import Undo
from slowstep.record.recorder import Recorder

# What stands in for the start of a loader whose waits are recorded bears this mark: `slowstep.steps` does not record them twice.
RECORDS_WAITS: Final = "_slowstep_records_waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One thing to hook. `install` runs once `module` has been imported; it raises Unfit, or returns what undoes it completely."""

    name: str
    module: str
    install: Callable[[Recorder], Undo]
