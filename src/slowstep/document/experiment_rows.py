"""The experiments of a report as plain data: how levers were tried, what each gained, and which change is the best."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from slowstep.document.bench import SandboxRow
from slowstep.prove.stats.verdicts import ArmState, GainVerdict

HeldBack = Literal["load", "seldom", "long steps", "kept"]


class IntervalRow(TypedDict):
    """A factor of throughput with its interval; an end that is not known is None."""

    value: float
    low: float | None
    high: float | None


class ThroughputsRow(TypedDict):
    """Samples (or steps, as `per` says) per second by the clock: as it is, and with the lever."""

    per: Literal["sample", "step"]
    as_is_per_s: float
    per_s: float


class ChangeRow(TypedDict):
    """A change of one call in the script: how it is written there, and its place (file:line). The call `makes` a loader, the settings
    that all loaders of a trainer are made by, an optimizer, or a trainer with what is its own, and `others` more than the lever has
    changed.
    """

    text: str
    place: str
    makes: str
    others: int


class OutcomeRow(TypedDict):
    """The largest gain that was proved. Throughputs are by the clock; where the gain is the corrected one (`used`) they are not its ratio.

    `losses`: bit for bit the same, compared (`numerics` of the lever's row), not compared since the data came in another order, or not
    compared at all. Of a lever that claims the same numbers, in runs of their own: the input was the same and losses differ anyway, the
    input was another one, or the losses were, where two runs without it had the same. `change` is None where the lever is no argument of
    one call, or where that is is not known.
    """

    lever: str
    gain: IntervalRow
    throughput: ThroughputsRow | None
    used: Literal["wall", "corrected"] | None
    losses: Literal["same", "compared", "other order", "not compared", "same input", "other input", "other losses"]
    change: ChangeRow | None


class StartRow(TypedDict):
    """One start of the script: the updates that it made, the rounds of the experiment in it, and whether it came to its own end. `reason`
    is why no other one followed, where how the experiment ended does not say it.
    """

    updates: int
    rounds: int
    came_to_its_end: bool
    reason: NotRequired[str | None]


class ExperimentFacts(TypedDict):
    """How the levers of `experiments` were tried. `precision` was asked for, `reached` is half the width of the widest interval of a
    lever that was not given up.

    `needed_s` are the fewest seconds with which its levers may have a verdict, None where none was tested.
    `trustworthy` is whether the control, which has no lever, gained nothing, and every lever was undone; None where that is not known.
    `distrust` is why it is not, as a clause. `problem` is why the training had to be ended before its time. `busy`: other processes took
    so much of the cores that levers which need some gain less than alone. `starts` are those of the script, where there was more than one.
    """

    seed: int | None
    steps_per_block: int | None
    precision: float
    reached: float | None
    budget_s: float
    needed_s: NotRequired[float | None]
    took_s: float | None
    ended_by: str
    exit_code: int | None
    problem: NotRequired[str | None]
    trustworthy: bool | None
    distrust: str | None
    foreign_share: float | None
    busy: NotRequired[bool]
    sandbox: SandboxRow
    starts: NotRequired[list[StartRow]]
    outcome: NotRequired[OutcomeRow | None]


class ExperimentRow(TypedDict):
    """A lever that was tried, the control, or a finding that no lever tries.

    `role` says what its gain is of (`prove/choose.py`, and `control`, `none`); `gain` is `wall` or `corrected`, as `used` says and
    for the reason `why`; its high end is without what the lever has left of what it takes away (`prove/stats/kept.py`). `held_back` is why
    a gain that is seen to be small refutes nothing: others had the cores that the lever asks for ("load"), what it changes came in too few
    blocks ("seldom"), it may shorten steps that were counted as if it did not ("long steps"), or it leaves so much of what it is to take
    away that the fix may gain more ("kept"); `reason` says it in words. `below` is the share under which gains could not be told from none,
    null with fewer rounds than a verdict takes. A row that is not "measured" has no verdict but "loss not finite"; a gain of it is what it
    gained until it was given up. `changes` is what else the lever changes. `how` says whether it was measured in blocks of one training or
    by whole runs; `rounds` are pairs of those then. `numbers` is what is known of the training's numbers with the lever: they
    are the same by what it is, or as `losses` of an outcome; missing where no lever was tried.
    """

    lever: str | None
    role: Literal["fix", "bound", "other", "control", "none"]
    rule: str | None
    state: ArmState | Literal["untried"]
    reason: str | None
    predicted: IntervalRow | None
    gain: IntervalRow | None
    wall: IntervalRow | None
    corrected: IntervalRow | None
    used: Literal["wall", "corrected"] | None
    why: str | None
    verdict: GainVerdict | None
    held_back: HeldBack | None
    below: float | None
    rounds: int
    steps: int
    effect: int | None
    facts: dict[str, Any]
    changes: list[str]
    changes_numerics: bool
    numerics: dict[str, Any] | None
    how: Literal["blocks", "re-runs"] | None
    throughput: ThroughputsRow | None
    numbers: NotRequired[
        Literal["by construction", "same", "compared", "other order", "not compared", "same input", "other input", "other losses"]
    ]
