"""What a diagnosis says: findings with their evidence, gain and fixes, what went unjudged, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from slowstep.parts import Part
from slowstep.reasons import Reason

VerdictState = Literal["bottleneck", "healthy", "undetermined"]


class EvidenceCode(StrEnum):
    """What evidence is, of the kinds that are looked for: its name is for people."""

    OPERATION = "operation"  # the name of that which the finding is about
    USED_BY_OTHERS = "used-by-others"  # cores of the machine
    SETTING = "setting"  # a number that the script sets, by the name of the argument
    SAVED_BY_FIX = "saved-by-fix"  # of the mean step
    # How it was seen, and how often.
    TIMED_IN = "timed-in"
    STACKS = "stacks"
    CHANGED = "changed"  # of an argument, for which a function was traced again


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One measured value behind a finding: its unit, the threshold it was held against, and where it was seen. None is unknown.

    `code` is what it is found by, where something looks for it.
    """

    name: str
    value: float | int | str | None
    unit: str
    threshold: float | None = None
    where: str | None = None
    code: EvidenceCode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredGain:
    """A gain that an experiment measured, as a factor of throughput, with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What the first fix would gain: a factor of throughput (1.8 is 1.8 times), its 90 % interval and its assumption. None is unknown;
    a gain that is known and has no `high` is `low` or more. `unknown_because` is why nothing was predicted, where that can be said, and
    `headroom` what it would be if all that is claimed cost nothing, by the share that is expected.

    The interval is that of another run, which may meet a faster or slower machine. `steady_low` is its lower end at the pace of this run.
    """

    predicted: float | None
    low: float | None
    high: float | None
    assumes: str
    measured: MeasuredGain | None = None
    steady_low: float | None = None
    unknown_because: Reason | None = None
    headroom: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One thing to do. `changes_numerics` says that the model may train differently.

    `lever` is the change that can try it from outside, as `slowstep prove --levers` takes it (`workers=4`). `bounded_by` is one that does
    more than the fix would: what it gains, the fix does at most. `lever_in_doubt` would be its lever, were it known that it changes the
    loader which the fix is for: of several that are read, levers change the one that is waited for most.
    Raises ValueError without a text.
    """

    text: str
    lever: str | None = None
    bounded_by: str | None = None
    lever_in_doubt: str | None = None
    changes_numerics: bool = False

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("a fix has no text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What a finding that is folded into another one says, what it advises, and what the first of that would gain."""

    rule: str
    title: str
    fixes: tuple[Fix, ...]
    gain: Gain
    names: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of the training: the share of the window it costs (0 to 1), the ledger parts it claims, evidence, gain and fixes.

    `also` names the rules folded into it, and `folded` is what they advise; `names` is what it names for one to look at, which is said
    where it is folded itself (None: no more than its rule says); `opens_with_name` where its title begins with a name, which takes no
    capital; `names_cause` is True where it names a file, function, transform or callback; `may_be_lesser_than` is a rule on what this is
    a part of: where that one could not judge, this does not lead. An `advisory` finding is worth knowing but claims no time: it never
    decides the verdict, and stands last unless it is `urgent`: at the rate of the window the training is ended within the hour. What lies
    `outside` is caused by nothing in the script: reports note it, and do not number it among what is to be changed there.
    Raises ValueError without evidence or without a fix, which could not be acted on, and for advice that claims time or predicts a gain.
    """

    rule: str
    stage: str
    title: str
    share: float
    share_low: float
    share_high: float
    claims: tuple[Part, ...]
    evidence: tuple[Evidence, ...]
    gain: Gain
    fixes: tuple[Fix, ...]
    also: tuple[str, ...] = ()
    folded: tuple[Folded, ...] = ()
    names: str | None = None
    opens_with_name: bool = False
    names_cause: bool = False
    may_be_lesser_than: str | None = None
    advisory: bool = False
    urgent: bool = False
    outside: bool = False

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"finding {self.rule!r} has no evidence")
        if not self.fixes:
            raise ValueError(f"finding {self.rule!r} has no fix")
        if self.advisory and (self.claims or self.gain.predicted is not None):
            raise ValueError(f"advisory finding {self.rule!r} claims time or predicts a gain")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJudged:
    """A rule that could not judge, and why: that is different from having looked and found nothing.

    `advisory` where it leaves no verdict in doubt: all that the rule could have found is advice (the engine says so, rules need not), or
    what it looks for is very unlikely. `lever` is the change that would tell, as `slowstep prove --levers` takes it, `change` one by hand.
    `pressing` where it is to be read nevertheless, on the screen too: what was seen so far may soon end the training. `by_fault` where
    an error of slowstep's own is why.
    """

    rule: str
    reason: Reason
    advisory: bool = False
    lever: str | None = None
    change: str | None = None
    pressing: bool = False
    by_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer; `stage` is the first finding's, or the ledger's largest where there is no bottleneck.

    `reason` is why it is undetermined, or what else there is to say: None where the title of the finding is the answer whose `rule` it
    names. `scope` is what of the training it speaks of, where that is a part.
    """

    state: VerdictState
    stage: str | None
    healthy: bool | None
    rule: str | None
    reason: Reason | None
    scope: Reason | None = None
