"""What the levers of arms change beside the time, and for which arms others on the machine matter. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slowstep.analyses.machine.load import is_busy
from slowstep.prove.choose import Choice
from slowstep.prove.stats.design import CONTROL, FIRST
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.reasons import Reason, Wording
from slowstep.record.experiment.lever import DEMAND, Lever, OnLongSteps

LOADED: Final = Wording(
    "cores-used-by-others",
    "not refuted, because it needs cores and other processes used {share:share} of them meanwhile: measure its gain on a machine that "
    "they leave alone",
)
STOLEN: Final = Wording(
    "cores-kept-by-hypervisor",
    "not refuted, because it needs cores and the hypervisor may have kept up to {share:share} of them just then: measure its gain on a "
    "machine that gives all of them",
)


def changes_of(choice: Choice, levers: Mapping[str, Lever]) -> tuple[str, ...]:
    """What the lever of a choice changes beside the time, as of `Lever.changes`; nothing is known of one that is no more."""
    lever = levers.get(choice.spec.name)
    return () if lever is None else tuple(sorted(lever.changes))


def long_steps_of(choice: Choice, levers: Mapping[str, Lever]) -> OnLongSteps:
    """What it does to steps that are seldom and long; of one that is no more anything may be."""
    lever = levers.get(choice.spec.name)
    return OnLongSteps.OWN if lever is None else lever.long_steps


def corrected_arms(choices: Sequence[Choice], levers: Mapping[str, Lever], foreign_share: float | None) -> frozenset[int]:
    """The arms whose gain is the one without waiting for a core: where others use the machine, unless the lever asks for more of it."""
    if not is_busy(foreign_share):
        return frozenset()
    arms = {arm for arm, choice in enumerate(choices, FIRST) if DEMAND not in changes_of(choice, levers)}
    return frozenset({CONTROL} | arms)


def arms_with_own_long_steps(choices: Sequence[Choice], levers: Mapping[str, Lever]) -> frozenset[int]:
    """The arms with a lever that may itself be why seldom long steps come, or do not."""
    return frozenset(arm for arm, choice in enumerate(choices, FIRST) if long_steps_of(choice, levers) is OnLongSteps.OWN)


def needing_cores(
    choices: Sequence[Choice], levers: Mapping[str, Lever], steps: ExperimentSteps, foreign_share: float | None, stolen_share: float
) -> dict[int, Reason]:
    """The arms that ask for more of a machine of which others take a part, and how much: that they gain little here says nothing of
    them alone.

    A hypervisor steals where cores are wanted: all of it may have fallen to the arm that wants the most of them.
    """
    demanding = [arm for arm, choice in enumerate(choices, FIRST) if DEMAND in changes_of(choice, levers)]
    if foreign_share is None or not len(steps.ns):
        return {}
    if is_busy(foreign_share):
        return dict.fromkeys(demanding, LOADED(share=foreign_share))
    of_time = {arm: float(steps.ns[steps.arm == arm].sum() / steps.ns.sum()) for arm in demanding}
    stolen = {arm: min(stolen_share / share, 1.0) for arm, share in of_time.items() if share}
    return {arm: STOLEN(share=share) for arm, share in stolen.items() if is_busy(share)}
