"""How calls of the host are named in findings about a trace: by operator or range, and by the function that they are in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

# How calls of the devices' runtimes and drivers are named: cudaLaunchKernel, hipModuleLaunchKernel, cuLaunchKernel.
RUNTIME_CALL: Final = r"(cuda|hip|cu)[A-Z]"


def host_work(gap: Mapping[str, Any]) -> str | None:
    """What the host did in a row of the table `gaps` that is charged to launching: an operator or a range, and in which function.

    A call that launches names nothing: it ends the gap.
    """
    call = gap["call"]
    named = gap["operator"] or (call if call is not None and not re.match(RUNTIME_CALL, call) else None)
    return place(named, gap["where"]) if named or gap["where"] else None


def place(call: str | None, where: str | None) -> str:
    """A call and the function that it is in, in one phrase: "aten::to in load (train.py:41)"; "an unnamed call" where nothing is known."""
    return " in ".join(word for word in (call, where) if word) or "an unnamed call"
