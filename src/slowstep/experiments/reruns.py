"""Whole short runs in pairs, as it is and with a lever on: the fall-back for what cannot be switched in a running training, and the check
of a lever that changes numbers.

The order of each second pair is reversed, so that what drifts meets both alike. Every run needs a start-up of its own: `seconds_needed`
says how long all of them take, before they begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from slowstep.experiments.intervals import Interval, LogRatio
from slowstep.experiments.numerics import Numerics, Pair, compare
from slowstep.experiments.whole_run import Asked, Limits, Make, Ran, State, run_once
from slowstep.record.lever import Spec

# The design's upper limit of a warm-up: so large a share of a run's steps comes before those that are counted.
WARMUP_SHARE: Final = 0.20
# A run with fewer counted steps has no throughput.
FEWEST_STEPS: Final = 10
# Three seeds with and three without (issue 5); far enough apart that a script's seed + rank of one is not that of another.
SEED_OFFSETS: Final = (0, 10_007, 20_014)
# Draws from Student's distribution: its ends at 2.5 % are known to 1 %.
_DRAWS: Final = 99_999
_SEED: Final = 20_260_102

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reruns:
    """Throughput with the lever by that as it is. `how` says that whole runs were compared, and not blocks of one training.

    `ratios` are those of the single pairs; `log_ratio` is None with fewer than two. `state` and `reason` tell of the run that ended it all
    where it is not "done". `per` is what throughput counts: "sample", or "step" where samples are not known.
    """

    lever: Spec
    state: State
    reason: str | None
    ratios: tuple[float, ...]
    log_ratio: LogRatio | None
    per: Literal["sample", "step"]
    steps: int
    seconds: float
    effect: int
    facts: dict[str, Any]
    how: Literal["re-runs"] = "re-runs"

    @property
    def gain(self) -> Interval | None:
        """The factor of throughput with its 95 % interval."""
        return None if self.log_ratio is None else self.log_ratio.interval()


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What became of the check of a lever's numerics; `numerics` is None where not one pair of runs can be compared."""

    lever: Spec
    state: State
    reason: str | None
    numerics: Numerics | None
    seconds: float


def seconds_needed(runs: int, *, startup_s: float, step_s: float, steps: int) -> float:
    """How long so many runs take, about: a start-up and all steps each, at the speed of the training as it is."""
    return runs * (startup_s + steps * step_s)


def rerun(make: Make, lever: Spec, limits: Limits, *, pairs: int, tell: Tell = lambda _: None) -> Reruns:
    """Compare throughputs in so many pairs of runs; a lever that cannot be had, or a run without enough steps, ends them early.

    `make` has to make each run ready in a sandbox of its own: one that finds the checkpoint of the run before it goes on from there.
    """
    found: list[tuple[Ran, Ran]] = []
    ended: Ran | None = None
    seconds = 0.0
    for number, (first, second) in enumerate(_orders(pairs, Asked(), Asked(levers=(lever,)))):
        tell(f"re-runs of {lever}: pair {number + 1} of {pairs}")
        runs, ended = _both(make, (first, second), limits)
        seconds += sum(ran.seconds for ran in runs)
        if ended is not None:
            break
        as_is, with_lever = sorted(runs, key=lambda ran: len(ran.asked.levers))
        found.append((as_is, with_lever))
    return _reruns(lever, found, ended, seconds)


def check(make: Make, lever: Spec, limits: Limits, *, offsets: Sequence[int] = SEED_OFFSETS, tell: Tell = lambda _: None) -> Check:
    """Compare losses, a pair of runs for each seed; a loss that is not finite ends the lever's arm. See `rerun` for `make`."""
    pairs: list[Pair] = []
    ended: Ran | None = None
    seconds = 0.0
    for number, offset in enumerate(offsets):
        tell(f"losses with and without {lever}: seed {number + 1} of {len(offsets)}")
        plain, changed = (Asked(levers=levers, seed_offset=offset, losses=True) for levers in ((), (lever,)))
        runs, ended = _both(make, (changed, plain) if number % 2 else (plain, changed), limits)
        seconds += sum(ran.seconds for ran in runs)
        if ended is not None:
            break
        as_is, with_lever = sorted(runs, key=lambda ran: len(ran.asked.levers))
        assert as_is.losses is not None
        assert with_lever.losses is not None
        pairs.append(Pair(seed=number + 1, without=as_is.losses, with_lever=with_lever.losses, first=with_lever.on_from or 0))
        if as_is.losses.first_not_finite or with_lever.losses.first_not_finite:
            break
    return Check(
        lever=lever,
        state="done" if ended is None else ended.state,
        reason=None if ended is None else ended.reason,
        numerics=compare(pairs) if pairs else None,
        seconds=seconds,
    )


def _orders(pairs: int, as_is: Asked, lever: Asked) -> Iterator[tuple[Asked, Asked]]:
    """As it is, lever, lever, as it is, as it is, lever ..."""
    for number in range(pairs):
        yield (lever, as_is) if number % 2 else (as_is, lever)


def _both(make: Make, asked: tuple[Asked, Asked], limits: Limits) -> tuple[list[Ran], Ran | None]:
    """Two runs, and the one of them that makes going on senseless. One that ended or was slow still counts for the steps that it made."""
    runs: list[Ran] = []
    for each in asked:
        ran = run_once(make, each, limits)
        runs.append(ran)
        if ran.state in ("not applicable", "failed") or _made(ran) < FEWEST_STEPS:
            return runs, ran
    return runs, None


def _made(ran: Ran) -> int:
    if ran.losses is not None:
        # A loss that is not finite says enough by itself.
        return FEWEST_STEPS if ran.losses.first_not_finite else len(ran.losses)
    return 0 if ran.steps is None else len(_counted(ran, ran.steps.ns))


def _counted(ran: Ran, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those after the warm-up, and after the lever was on: the plan's first step is the second update's, or a later one's."""
    return values[max(round(len(values) * WARMUP_SHARE), ran.on_from or 0) :]


def _reruns(lever: Spec, pairs: Sequence[tuple[Ran, Ran]], ended: Ran | None, seconds: float) -> Reruns:
    by_samples = all(_tells_samples(ran) for pair in pairs for ran in pair)
    ratios = tuple(_throughput(changed, by_samples) / _throughput(as_is, by_samples) for as_is, changed in pairs)
    changed_runs = [changed for _, changed in pairs]
    return Reruns(
        lever=lever,
        state="done" if ended is None else ended.state,
        reason=None if ended is None else ended.reason,
        ratios=ratios,
        log_ratio=log_ratio(ratios),
        per="sample" if by_samples else "step",
        steps=sum(_made(ran) for ran in changed_runs),
        seconds=seconds,
        effect=sum(ran.effect for ran in changed_runs),
        facts=changed_runs[-1].facts if changed_runs else {},
    )


def _tells_samples(ran: Ran) -> bool:
    return ran.steps is not None and bool(np.all(_counted(ran, ran.steps.samples) >= 0))


def _throughput(ran: Ran, by_samples: bool) -> float:
    """Samples, or steps, per second after the warm-up."""
    assert ran.steps is not None
    ns = _counted(ran, ran.steps.ns)
    done = int(_counted(ran, ran.steps.samples).sum()) if by_samples else len(ns)
    return done / (float(ns.sum()) / 1e9)


def log_ratio(ratios: Sequence[float]) -> LogRatio | None:
    """The mean of the pairs' log ratios; how far off it may be is Student's distribution with one degree of freedom less than pairs.

    The pairs are runs of their own, so they are taken as independent, and their logarithms as normal. None with fewer than two.
    """
    if len(ratios) < 2:
        return None
    logs = np.log(ratios)
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    pivots = np.sort(np.random.default_rng(_SEED).standard_t(len(logs) - 1, _DRAWS))
    return LogRatio(value=float(logs.mean()), error=error, pivots=pivots)
