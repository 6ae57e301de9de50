"""Whether a lever that claims the same numbers has them. Pure: from check sums of the input and losses of three runs to an answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.losses import UpdateLosses
from slowstep.prove.stats.numerics import FEWEST_STEPS


@dataclass(frozen=True, kw_only=True, slots=True)
class SameNumbers:
    """What `steps` of two runs as it is and of one with the lever say, all with one seed.

    `same_input` is None where that of the two differs, or was not seen; `repeats`: their losses are equal to the last bit; `bitwise_equal`:
    and so are those with the lever. `first_other` is the first step (from 1) whose input differs with the lever, `first_other_loss` that of
    the first other loss; None where there is none.
    """

    steps: int
    same_input: bool | None
    repeats: bool
    bitwise_equal: bool
    first_other: int | None = None
    first_other_loss: int | None = None

    @property
    def holds(self) -> bool:
        """Whether nothing was seen against the claim.

        What each pass draws again, as an order, and what is drawn from then on, as dropout, are other numbers where workers are kept.
        """
        return not is_early(self.first_other) and not is_early(self.first_other_loss)

    def as_row(self) -> dict[str, Any]:
        """Plain data, as it stands in the report, with `says`: the same in a sentence."""
        return asdict(self) | {"says": says(self)}


def is_early(first: int | None) -> bool:
    """Whether a difference is there from the beginning, and not from some later pass on."""
    return first is not None and first <= FEWEST_STEPS


def compare_claimed(as_is: UpdateLosses, again: UpdateLosses, with_lever: UpdateLosses) -> SameNumbers:
    """Compare them over the steps that all have made."""
    runs = (as_is, again, with_lever)
    steps = min(map(len, runs))
    first, second, changed = (run.inputs[:steps] for run in runs)
    is_seen = bool(steps) and bool((first >= 0).any()) and np.array_equal(first, second)
    others = np.flatnonzero(first != changed) if is_seen else np.zeros(0, np.int64)
    known = np.all([(run.passes[:steps] > 0) & np.isfinite(run.loss[:steps]) for run in runs], axis=0)
    is_enough = int(known.sum()) >= FEWEST_STEPS

    repeats = is_enough and not len(_others(as_is, again, known))
    other_losses = _others(as_is, with_lever, known) if repeats else np.zeros(0, np.int64)
    return SameNumbers(
        steps=steps,
        same_input=not len(others) if is_seen else None,
        repeats=repeats,
        bitwise_equal=repeats and not len(other_losses),
        first_other=_first(others),
        first_other_loss=_first(other_losses),
    )


def _others(one: UpdateLosses, other: UpdateLosses, known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The steps (from 0) whose losses are not the same to the last bit."""
    bits = (run.loss[: len(known)].view(np.int64) for run in (one, other))
    return np.flatnonzero(known & np.not_equal(*bits))


def _first(steps: NDArray[np.int64]) -> int | None:
    return int(steps[0]) + 1 if len(steps) else None


def says(found: SameNumbers) -> str:
    """The comparison in a sentence."""
    if found.steps < FEWEST_STEPS:
        return f"the numbers could not be compared: {found.steps} steps were seen of each run"
    if found.same_input is False and is_early(found.first_other):
        return (
            f"from step {found.first_other} on the data came in another order or form than in two runs without it, as where samples draw "
            "random numbers of the training's"
        )
    if found.same_input is False:
        return f"the input is the same up to step {found.first_other}, and then in another order or form, as where each pass draws its own"
    if found.bitwise_equal:
        return f"the {'input and the ' if found.same_input else ''}losses are equal to the last bit: {found.steps} steps"
    if is_early(found.first_other_loss):
        return f"the losses are other ones from step {found.first_other_loss} on, where two runs without the lever had the same"
    if found.repeats:
        return (
            f"{'the input is the same, and ' if found.same_input else ''}the losses are equal to the last bit up to step "
            f"{found.first_other_loss}, as where a pass draws random numbers again"
        )
    if found.same_input:
        return f"the input is the same: {found.steps} steps; few losses were seen, or two runs without the lever differ too"
    return "input and losses cannot be compared: little was seen of them, or two runs without the lever differ too"
