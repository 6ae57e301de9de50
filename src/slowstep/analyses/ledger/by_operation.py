"""Operations that a step does one by one, outside of what its framework compiles, while the device has nothing to do: what stacks tell.

Each returns before it is done, so that a device which has much to do works on while the next ones are called: that is nobody's cost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from slowstep.analyses.ledger.counted_device import DEVICE_STAGE, is_hosts_own
from slowstep.analyses.python.binomial import share_bounds
from slowstep.analyses.python.functions import Path, Stacks, is_library
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.parts import Part
from slowstep.timeline.timeline import Frame

SINGLE_OPERATIONS = code(Code.SINGLE_OPERATIONS)
# Batches that are brought to the device are no operations of the step.
BRINGS = re.compile(r"(^|\.)(asarray|array|device_put)$")

UNNAMED = "<lambda>"


@dataclass(frozen=True, kw_only=True, slots=True)
class ByOperation:
    """`idled` of `of` stacks in the steps stand in single operations beneath a line of the user's while the device idled; at `worked` it
    did not. `low` and `high` are the ends of the 90 % interval of the share of `idled`, `high_of_all` is the upper one of both. Most of
    those that idled, `most`, stand beneath `frame`.
    """

    idled: int
    worked: int
    of: int
    low: float
    high: float
    high_of_all: float
    frame: Frame
    most: int

    @property
    def share(self) -> float:
        """Of the steps' time."""
        return self.idled / self.of


def find_by_operation(stacks: Stacks, where: Iterable[Part | None]) -> ByOperation | None:
    """Of stacks within steps, each of the part in `where`; None where no stack stands in such an operation of an idle device."""
    asked, worked = 0, 0
    idled: Counter[Frame] = Counter()
    for stack, told, part in zip(stacks.stack.tolist(), stacks.device_idle.tolist(), where, strict=True):
        asked += told >= 0
        if told < 0 or part is None or part.stage != DEVICE_STAGE or is_hosts_own(part):
            continue
        caller = _caller(stacks.frames.get(stack, ()))
        if caller is not None and told:
            idled[caller] += 1
        worked += caller is not None and not told
    if not idled:
        return None
    frame, most = idled.most_common(1)[0]
    low, high = share_bounds(idled.total(), asked)
    _, high_of_all = share_bounds(idled.total() + worked, asked)
    return ByOperation(idled=idled.total(), worked=worked, of=asked, low=low, high=high, high_of_all=high_of_all, frame=frame, most=most)


def _caller(path: Path) -> Frame | None:
    """The user's line beneath which single operations are done; None where none are."""
    at = next((depth for depth in range(len(path) - 1, -1, -1) if not is_library(path[depth])), None)
    if at is None or not any(SINGLE_OPERATIONS.search(frame.file) for frame in path[at + 1 :]) or BRINGS.search(path[at + 1].function):
        return None
    # What `jax.tree.map` is handed has no name.
    named = (frame for frame in path[at::-1] if not is_library(frame) and not frame.function.endswith(UNNAMED))
    return next(named, path[at])
