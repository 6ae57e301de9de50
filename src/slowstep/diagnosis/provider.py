"""Evidence of one problem that differs by what was measured: who provides it, and what all of them tell alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.gain import AnyCounterfactual
from slowstep.findings import Evidence, Fix, Gain
from slowstep.parts import Part
from slowstep.reasons import Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Details:
    """What a finding says of a problem, and what would be without it; no `counterfactual` where that is not known."""

    stage: str
    title: str
    claims: tuple[Part, ...]
    evidence: tuple[Evidence, ...]
    counterfactual: AnyCounterfactual | None
    gain: Gain
    fixes: tuple[Fix, ...]
    names_cause: bool = False
    opens_with_name: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsure:
    """Why it is not known whether there is the problem; the rest is as in `NotJudged`."""

    reason: Reason
    advisory: bool = False
    lever: str | None = None
    change: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldTime:
    """Share of the window that a problem holds, with its 90 % interval, and how much of it is worth a finding.

    `details` are the rest, which is looked for where there is so much; `unsure` is why it may be no problem even so.
    """

    share: float
    low: float
    high: float
    at_least: float
    details: Callable[[], Details]
    unsure: Unsure | None = None


# None: looked, and nothing is held.
Provided = HeldTime | Unsure | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """Who finds evidence of a problem, in measurements that have its `topics`; it reads these, and those of the rule."""

    topics: tuple[str, ...]
    find: Callable[[Measurements], Provided]

    def knows(self, m: Measurements) -> bool:
        """Whether all that it needs was measured."""
        return m.has(*self.topics)
