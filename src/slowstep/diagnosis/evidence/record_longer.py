"""What to do where a longer recording would tell more, or one at a higher level, in words that fit how it was begun."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.reasons import Reason, Wording

RECORD_LONGER = Wording("record-longer", "record longer")
AT_LEVEL = Wording("record-at-level", "record longer, at --level 1 or more")
WITH_LEVEL = Wording("record-with-level", "record longer, with level=1 or more")


def record_longer(m: Measurements) -> Reason:
    """The same for longer, and with causes where none were recorded: an option of the command, or an argument of the call."""
    if m.training.level:
        return RECORD_LONGER()
    return WITH_LEVEL() if m.training.from_within else AT_LEVEL()
