"""Whether a lever that changes numbers changes the losses more than another seed does. Pure: from the losses of runs to a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.losses import UpdateLosses

# Under so many steps nothing is said about convergence (issue 5), and of those the last so large a share stands for the end of the run.
CONVERGENCE_STEPS: Final = 100
LATE_SHARE: Final = 0.2
# Fewer say nothing at all.
FEWEST_STEPS: Final = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two runs with the same seed and the same order of data; `first` is the step (from 0) from which the lever was on."""

    seed: int
    without: UpdateLosses
    with_lever: UpdateLosses
    first: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NotFinite:
    """A loss that was no finite number, at a step from 1 on; it ended its run."""

    seed: int
    with_lever: bool
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LossDifference:
    """Of the mean loss over the same steps, as shares of the mean loss without the lever.

    `relative` is with less without, the mean of `by_seed`; `spread` the largest less the smallest of the runs without, None of one seed.
    """

    relative: float
    by_seed: tuple[float, ...]
    spread: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Numerics:
    """What the runs say: `steps` were compared of each. `whole` is None where too few were, or their mean loss is 0.

    `late` is the same of the last fifth of them, None under 100 steps: so few say nothing about convergence. `same_input` is None where no
    loader was seen to give the batches. `spoils`: with the lever a loss was not finite, and as it is all were until then.
    """

    seeds: int
    steps: int
    whole: LossDifference | None
    late: LossDifference | None
    bitwise_equal: bool
    same_input: bool | None
    not_finite: tuple[NotFinite, ...]
    spoils: bool = False

    def as_row(self) -> dict[str, Any]:
        """Plain data, as it stands in the report, with `says`: the same in a sentence."""
        return asdict(self) | {"says": says(self)}


def compare_losses(pairs: Sequence[Pair]) -> Numerics:
    """Compare pairs of runs, over the steps that all of them have made since the lever was on in all of them."""
    bad = tuple(_not_finite(pairs))
    first, last = _compared(pairs)
    without, with_lever = _matrix(pairs, first, last)
    known: NDArray[np.bool_] = np.all(np.isfinite(without) & np.isfinite(with_lever), axis=0)
    enough = not bad and int(known.sum()) >= FEWEST_STEPS
    is_long = enough and int(known.sum()) >= CONVERGENCE_STEPS
    late = known & (np.arange(len(known)) >= round(len(known) * (1 - LATE_SHARE)))
    return Numerics(
        seeds=len(pairs),
        steps=int(known.sum()),
        whole=_difference(without[:, known], with_lever[:, known]) if enough else None,
        late=_difference(without[:, late], with_lever[:, late]) if is_long else None,
        bitwise_equal=enough and without[:, known].tobytes() == with_lever[:, known].tobytes(),
        same_input=_same_input(pairs, first, last),
        not_finite=bad,
        spoils=bool(bad) and all(_is_levers(one, pairs) for one in bad),
    )


def _not_finite(pairs: Sequence[Pair]) -> list[NotFinite]:
    runs = [(pair.seed, is_lever, run) for pair in pairs for is_lever, run in ((False, pair.without), (True, pair.with_lever))]
    return [NotFinite(seed=seed, with_lever=is_lever, step=step) for seed, is_lever, run in runs if (step := run.first_not_finite)]


def _is_levers(found: NotFinite, pairs: Sequence[Pair]) -> bool:
    """Whether it came with the lever on, at a step that the run without it has made too."""
    pair = next(pair for pair in pairs if pair.seed == found.seed)
    return found.with_lever and pair.first < found.step <= len(pair.without)


def _compared(pairs: Sequence[Pair]) -> tuple[int, int]:
    first = max((pair.first for pair in pairs), default=0)
    last = min((min(len(pair.without), len(pair.with_lever)) for pair in pairs), default=0)
    return first, max(first, last)


def _matrix(pairs: Sequence[Pair], first: int, last: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A row per pair, a column per compared step; NaN where the loss is not known."""
    rows = [[np.where(run.passes > 0, run.loss, np.nan)[first:last] for run in (pair.without, pair.with_lever)] for pair in pairs]
    both = np.array(rows, dtype=np.float64).reshape(len(pairs), 2, last - first)
    return both[:, 0], both[:, 1]


def _difference(without: NDArray[np.float64], with_lever: NDArray[np.float64]) -> LossDifference | None:
    means, changed = without.mean(axis=1), with_lever.mean(axis=1)
    scale = abs(float(means.mean()))
    if scale == 0:
        return None
    by_seed = (changed - means) / scale
    return LossDifference(
        relative=float(by_seed.mean()),
        by_seed=tuple(by_seed.tolist()),
        spread=float(np.ptp(means)) / scale if len(means) > 1 else None,
    )


def _same_input(pairs: Sequence[Pair], first: int, last: int) -> bool | None:
    seen = [pair for pair in pairs if (pair.without.inputs >= 0).any() or (pair.with_lever.inputs >= 0).any()]
    if not seen or first == last:
        return None
    return all(np.array_equal(pair.without.inputs[first:last], pair.with_lever.inputs[first:last]) for pair in seen)


def says(numerics: Numerics) -> str:
    """The comparison in a sentence."""
    if numerics.not_finite:
        return _said_not_finite(numerics)
    seeds = f"{numerics.seeds} seed{'s' * (numerics.seeds != 1)}"
    if numerics.bitwise_equal:
        return f"the losses are equal to the last bit: {numerics.steps} steps, {seeds}" + _doubts(numerics)
    if numerics.whole is None:
        return f"the losses could not be compared: {numerics.steps} steps of {seeds} have one that is known"
    text = f"mean loss over {numerics.steps} steps {_said(numerics.whole)}, {seeds}"
    if numerics.late is not None:
        text += f"; over the last fifth of them {_said(numerics.late)}"
    return text + _doubts(numerics)


def _said_not_finite(numerics: Numerics) -> str:
    found = numerics.not_finite
    changed = next((one for one in found if one.with_lever), None)
    plain = next((one for one in found if not one.with_lever), None)
    runs = ((plain, "without the lever"), (changed, "with the lever"))
    where = " and ".join(f"at step {one.step} {how} (seed {one.seed})" for one, how in runs if one is not None)
    if numerics.spoils:
        return f"the loss was not finite {where}, and always was without it: whatever the lever gains, it spoils the training"
    return f"the loss was not finite {where}: " + ("the lever's runs were ended" if plain is None else "there is nothing to compare with")


def _said(difference: LossDifference) -> str:
    beside = "" if difference.spread is None else f", between seeds {difference.spread * 100:.2f} %"
    return f"{difference.relative * 100:+.2f} % with the lever{beside}"


def _doubts(numerics: Numerics) -> str:
    text = "; too few steps to say anything about convergence" if numerics.steps < CONVERGENCE_STEPS else ""
    if numerics.same_input is False:
        text += "; the data came in another order or form, which is part of the difference"
    return text
