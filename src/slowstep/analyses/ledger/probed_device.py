"""Charges the time of a device that works while the host goes on, by asking it now and then whether it has anything to do.

It is asked with every stack of the training thread (`record/timing/stacks.py`), wherever that stands at a moment that nobody chose. So the
device idled for as large a share of the time of each of the host's parts as it did at its stacks, and worked for the rest of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from slowstep.analyses.ledger.counted_device import DEVICE_STAGE, CountedRows, NsByPart, is_hosts_own
from slowstep.analyses.python.binomial import share_bounds
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.steps import Floats
from slowstep.parts import Part

# A wait for input, whose parts are not told apart by time.
WAITING: Final = None
Where = Part | None


def was_asked(stacks: Stacks) -> bool:
    """Whether the device was ever asked, and answered."""
    return bool((stacks.device_idle >= 0).any())


def charge_probed(rows: NsByPart, stacks: Stacks, where: Iterable[Where], work: Part) -> CountedRows:
    """The account of the host, whose `rows` they are, with what the device did in its place, as the part `work`; `where` has the part that
    each stack is of.
    """
    asked: Counter[Where] = Counter()
    idled: Counter[Where] = Counter()
    for part, told in zip(where, stacks.device_idle.tolist(), strict=True):
        asked[part] += told >= 0
        idled[part] += told > 0
    whole = np.sum(list(rows.values()), axis=0)
    # Where it was never asked while the host compiled, it is taken to wait for what is compiled.
    shares = {part: (1.0, 1.0, 1.0) for part in rows if is_hosts_own(part)}
    shares |= {part: _idle_share(part, asked, idled) for part in rows if part.stage != DEVICE_STAGE or (is_hosts_own(part) and asked[part])}
    ns, low, high = ({part: rows[part] * ends[end] for part, ends in shares.items()} for end in range(3))
    return CountedRows(
        ns={**ns, work: _rest(whole, ns)},
        low={**low, work: _rest(whole, high)},
        high={**high, work: _rest(whole, low)},
    )


def _rest(whole: Floats, rows: NsByPart) -> Floats:
    return np.asarray(np.maximum(whole - np.sum([np.zeros_like(whole), *rows.values()], axis=0), 0.0))


def _idle_share(part: Part, asked: Counter[Where], idled: Counter[Where]) -> tuple[float, float, float]:
    """For how much of a part's time the device idled, and the ends of the 90 % interval; where it was not asked, taken as in all others."""
    key = WAITING if not asked[part] and part.stage in ("read", "preprocess") else part
    if asked[key]:
        return idled[key] / asked[key], *share_bounds(idled[key], asked[key])
    # What holds elsewhere need not hold here.
    return idled.total() / asked.total() if asked.total() else 1.0, 0.0, 1.0
