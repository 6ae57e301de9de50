"""torch's anomaly detection is off.

What it changes:
    No stack is kept for each operation and no gradient is looked at for NaN, for the whole process, whether the script has turned
    detection on once or does so in each step. What the script asks for meanwhile is noted, and holds again when the lever is off.
What it answers:
    What detection costs, which depends on the operations. The numbers are the same. Where a gradient is NaN, the script goes on.
When it has no meaning:
    The script never turns detection on: there is nothing to measure then. The installed torch turns it on in another way.
How it is undone:
    Detection is as the script has asked for last. The last backward that began without it has kept no stacks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from slowstep.record.experiment.lever import Change, Implementation, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

_SET, _IS_ON, _LOOKS_FOR_NAN = _NEEDED = ("set_anomaly_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled")


class AnomalyOff(Change):
    """Keeps detection off; `effect` counts the steps in which the script wanted it on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._set, self._is_on, self._looks_for_nan = (getattr(torch, name) for name in _NEEDED)
        self._in_place = {_SET: self._note, _IS_ON: self._wants, _LOOKS_FOR_NAN: self._wants_nan}
        self._own = {_SET: self._set, _IS_ON: self._is_on, _LOOKS_FOR_NAN: self._looks_for_nan}
        self._wanted = (False, True)
        self._asked = False

    def on(self) -> None:
        """Turn it off, and note from now on what the script asks for."""
        self._wanted = (bool(self._is_on()), bool(self._looks_for_nan()))
        self._asked = self._wanted[0]
        for name, ours in self._in_place.items():
            setattr(self._torch, name, ours)
        self._set(False)

    def off(self) -> None:
        """Have it as the script wants it."""
        for name, ours in self._in_place.items():
            if getattr(self._torch, name) == ours:
                setattr(self._torch, name, self._own[name])
        self._set(*self._wanted)

    def each_step(self) -> None:
        """Count a step in which it would have been on, at its end or in between."""
        self.effect += self._asked or self._wanted[0]
        self._asked = False

    def facts(self) -> Mapping[str, Any]:
        """Whether the script wants it on where a step ends."""
        return {"wanted": self._wanted[0]}

    def _note(self, enabled: bool, check_nan: bool = True) -> None:
        """In the place of torch's: the same arguments."""
        self._wanted = (bool(enabled), bool(check_nan))
        self._asked |= self._wanted[0]

    def _wants(self) -> bool:
        """In the place of torch's: its context managers put back what it says."""
        return self._wanted[0]

    def _wants_nan(self) -> bool:
        return self._wanted[1]


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where torch has no such functions."""
    torch: Any = sys.modules["torch"]
    if missing := [name for name in _NEEDED if not hasattr(torch, name)]:
        raise NotApplicable(f"the installed torch has no {missing[0]}")
    return AnomalyOff(torch)


IMPLEMENTATION = Implementation(lever=Lever(name="anomaly-off"), prepare=prepare)
