"""What a report has to say, as plain data: the verdict, findings with their gains, rules that could not judge, health."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class VerdictRow(TypedDict):
    """The answer; `code` is that of the reason for it, None where the title of the finding of `rule` is the answer."""

    state: Literal["bottleneck", "healthy", "undetermined"]
    stage: str | None
    healthy: bool | None
    rule: str | None
    summary: str
    answer: NotRequired[str]
    """The summary without the state, which stands beside it."""
    opens_with_name: NotRequired[bool]
    """Of the answer: it then takes no capital."""
    code: NotRequired[str | None]


class MeasuredRow(TypedDict):
    """A gain that an experiment measured."""

    value: float
    low: float
    high: float


class GainRow(TypedDict):
    """A factor of throughput: 1.8 means 1.8 times. Where `predicted` is known and `high` is not, it is `low` or more. `unknown_because` is
    why nothing was predicted, `headroom` what it would be if what is claimed cost nothing, where that is more. `steady_low` is the lower
    end at the pace of this run: what a verdict rests on, where `low` is that of another run, which may meet a slower machine.
    """

    predicted: float | None
    low: float | None
    high: float | None
    assumes: str
    measured: MeasuredRow | None
    unknown_because: NotRequired[str]
    headroom: NotRequired[float]
    steady_low: NotRequired[float]


class EvidenceRow(TypedDict):
    """One measured value behind a finding; `code` tells what it is, of the kinds that programs look for."""

    name: str
    value: float | int | str | None
    unit: str
    threshold: float | None
    where: str | None
    code: NotRequired[str]


class FixRow(TypedDict):
    """One thing to do: the lever that can try it, one that does more than it and so bounds what it gains, and one that may change another
    loader than the fix is for.
    """

    text: str
    lever: str | None
    bounded_by: NotRequired[str | None]
    lever_in_doubt: NotRequired[str | None]
    changes_numerics: bool


class FoldedGainRow(TypedDict):
    """A factor of throughput, as in `GainRow`."""

    predicted: float
    low: float | None
    high: float | None


class FoldedRow(TypedDict):
    """A finding that claims parts of another one, and is folded into it; `gain` is that of its first fix, where it is known."""

    rule: str
    title: str
    names: NotRequired[str | None]
    gain: NotRequired[FoldedGainRow]
    fixes: list[FixRow]


class FindingRow(TypedDict):
    """One problem, the ledger parts it claims, and what fixing it would gain; `folded` is what the rules named by `also` advise. What lies
    `outside` the script stands among `run.notes` on the screen. A title that `opens_with_name` takes no capital.
    """

    rule: str
    stage: str
    title: str
    opens_with_name: NotRequired[bool]
    share: float
    claims: list[str]
    also: list[str]
    folded: NotRequired[list[FoldedRow]]
    outside: NotRequired[bool]
    gain: GainRow
    evidence: list[EvidenceRow]
    fixes: list[FixRow]


class Next(TypedDict):
    """What binds once the top finding is fixed: its stage, and in words its demand, of the kind `code`."""

    stage: str | None
    code: NotRequired[str]
    predicted: str | None
    demand: NotRequired[str]
    """The same without the stage, which stands beside it."""


class NotJudgedRow(TypedDict):
    """A rule that could not judge; `advisory` where all that it could have found is advice, `lever` where an experiment would tell.

    `code` is that of the reason, which is its sentence. `pressing` is advice that could not be given yet, and is worth reading
    nevertheless; `in_verdict` where the verdict's summary gives the same reason.
    """

    rule: str
    code: NotRequired[str]
    reason: str
    advisory: NotRequired[bool]
    lever: NotRequired[str]
    pressing: NotRequired[bool]
    in_verdict: NotRequired[bool]


class HealthRow(TypedDict):
    """A counted loss or doubt."""

    name: str
    severity: Literal["info", "notice", "data_loss", "error"]
    count: int
    remedy: str
