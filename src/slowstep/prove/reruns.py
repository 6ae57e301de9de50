"""Whole short runs, as it is and with a lever on: the fall-back for what cannot be switched in a running training, and the check of a lever
that changes numbers.

Runs are interleaved, so that what drifts meets all alike. Every run needs a start-up of its own: `seconds_needed` says how long all of them
take, before they begin.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.numerics import Numerics, Pair, compare_losses
from slowstep.prove.stats.repeated import AllRepeated, RepeatedRuns
from slowstep.prove.stats.throughput import Throughputs
from slowstep.prove.stats.verdicts import ArmState
from slowstep.prove.whole_run import MakeExecutor, Ran, RunRequest, WholeRunLimits, WholeRunState, run_once
from slowstep.reasons import SAID, Reason, Wording
from slowstep.record.experiment.lever import LeverSpec
from slowstep.units import format_about

# The upper limit of a warm-up (docs/definitions.md): so large a share of a run's steps comes before those that are counted.
WARMUP_SHARE: Final = 0.20
# A run with fewer counted steps has no throughput.
FEWEST_STEPS: Final = 10
# Three seeds with and three without (issue 5); far enough apart that a script's seed + rank of one is not that of another.
SEED_OFFSETS: Final = (0, 10_007, 20_014)
TOO_SOON: Final = Wording("runs-ended-too-soon", "they ended too soon")
AS_IS_FAILED: Final = Wording("run-as-it-is-failed", "one as it is failed: {reason}")
IDLE: Final = Wording("lever-idle", "in {steps} steps with it the lever never changed anything")
_AS_IS: Final = "as-is"
_REFUSED: Final = (WholeRunState.NOT_APPLICABLE, WholeRunState.FAILED)
_CONTROL: Final = "as-is-again"

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What became of the check of a lever's numerics; `numerics` is None where not one pair of runs can be compared.

    `state` is that of the run that ended it, or IDLE.
    """

    lever: LeverSpec
    state: WholeRunState
    reason: Reason | None
    numerics: Numerics | None
    seconds: float


def seconds_needed(runs: int, *, startup_s: float, step_s: float, steps: int) -> float:
    """How long so many runs take, about: a start-up and all steps each, at the speed of the training as it is."""
    return runs * (startup_s + steps * step_s)


def round_words(number: int, rounds: int, *, levers: int, of: str = "") -> str:
    """Which round of how many it is; with one lever it is a pair: one run, or block, as it is and one with the lever."""
    return f"{'pair' if levers == 1 else 'round'} {number} of {of}{rounds}"


def rerun(
    make: MakeExecutor,
    asked: Mapping[str, RunRequest],
    limits: WholeRunLimits,
    *,
    rounds: int,
    seed: int,
    control: bool = False,
    within_s: float = float("inf"),
    takes_s: float | None = None,
    tell: Say = lambda _: None,
) -> AllRepeated:
    """Compare throughputs over so many rounds, each with one run as it is and one of every lever (`asked`, by name), in random order.

    With `control` each round has one more run as it is. A lever that cannot be had, or whose run has too few steps, is in no more rounds;
    after `within_s` no more runs begin; `takes_s` is how long all of it takes, about, told until more is known. Ctrl-C ends the run that is
    on, and the rest is left out. `make` has to make each run ready in a
    sandbox of its own: one that finds the checkpoint of the run before goes on from there.
    """
    began_s = limits.clock()
    walk = _Rounds(
        make, {_AS_IS: RunRequest(), **({_CONTROL: RunRequest()} if control else {}), **asked}, limits, random.Random(seed), within_s
    )
    interrupted = False
    try:
        for number in range(rounds):
            left_s = takes_s if not number else (limits.clock() - began_s) / number * (rounds - number)
            tell(round_words(number + 1, rounds, levers=len(asked)) + ("" if left_s is None else f", about {format_about(left_s)} left"))
            if not walk.go_round(asked):
                break
    except KeyboardInterrupt:
        interrupted = True
    return AllRepeated(
        levers={name: walk.repeated(name) for name in asked}, control=walk.ratios(_CONTROL) if control else (), interrupted=interrupted
    )


class _Rounds:
    """The runs that were made, by round and arm, and the arms that are left."""

    def __init__(
        self, make: MakeExecutor, arms: Mapping[str, RunRequest], limits: WholeRunLimits, drawn: random.Random, within_s: float
    ) -> None:
        self._make, self._arms, self._limits, self._drawn = make, arms, limits, drawn
        self._until_s = limits.clock() + within_s
        self._made: list[dict[str, Ran]] = []
        self._gone: dict[str, Ran] = {}

    def go_round(self, levers: Mapping[str, RunRequest]) -> bool:
        """One run of each arm that is left. False where nothing can be learned from one more round."""
        order = [name for name in self._arms if name not in self._gone]
        self._drawn.shuffle(order)
        ran: dict[str, Ran] = {}
        # Known to all at once: Ctrl-C may end the round in its middle.
        self._made.append(ran)
        for name in order:
            if self._limits.clock() >= self._until_s:
                return False
            ran[name] = run_once(self._make, self._arms[name], self._limits)
            if _is_useless(ran[name], self._limits.steps):
                self._gone[name] = ran[name]
                if name == _AS_IS or self._gone.keys() >= levers.keys():
                    return False
        return True

    def ratios(self, name: str) -> tuple[float, ...]:
        """Its throughput by that of the run as it is, of each round that has both."""
        pairs, most = self._pairs(name), self._limits.steps
        by_samples = _are_by_samples(pairs, most)
        return tuple(_throughput(changed, by_samples, most) / _throughput(as_is, by_samples, most) for as_is, changed in pairs)

    def repeated(self, name: str) -> RepeatedRuns:
        """What is known of a lever."""
        pairs, most, runs = self._pairs(name), self._limits.steps, [ran[name] for ran in self._made if name in ran]
        state, reason = self._outcome(name, len(pairs))
        return RepeatedRuns(
            state=state,
            reason=reason,
            ratios=self.ratios(name),
            per="sample" if _are_by_samples(pairs, most) else "step",
            steps=sum(_steps_of(changed, most) for _, changed in pairs),
            effect=sum(changed.effect for _, changed in pairs),
            seconds=sum(ran.seconds for ran in runs),
            facts=pairs[-1][1].facts if pairs else {},
            throughputs=_throughputs(pairs, most) if pairs else None,
        )

    def _outcome(self, name: str, pairs: int) -> tuple[ArmState, Reason | None]:
        gone = self._gone.get(name)
        if gone is not None:
            is_refused = gone.state is WholeRunState.NOT_APPLICABLE
            return ArmState.NOT_APPLICABLE if is_refused else ArmState.FAILED, _why(gone)
        if pairs >= 2:
            return ArmState.MEASURED, None
        as_is = self._gone.get(_AS_IS)
        return ArmState.UNMEASURED, TOO_SOON() if as_is is None else AS_IS_FAILED(reason=_why(as_is))

    def _pairs(self, name: str) -> list[tuple[Ran, Ran]]:
        most = self._limits.steps
        found = [(ran[_AS_IS], ran[name]) for ran in self._made if _AS_IS in ran and name in ran]
        return [pair for pair in found if not any(_is_useless(each, most) for each in pair)]


def check(
    make: MakeExecutor,
    lever: LeverSpec,
    limits: WholeRunLimits,
    *,
    offsets: Sequence[int] = SEED_OFFSETS,
    takes_s: float | None = None,
    tell: Say = lambda _: None,
) -> Check:
    """Compare losses, a pair of runs for each seed; a loss that is not finite ends the lever's arm. See `rerun` for `make`.

    A lever that changed nothing in its run leaves nothing to compare: equal losses would say nothing of it.
    """
    pairs: list[Pair] = []
    ended: Ran | None = None
    seconds = 0.0
    for number, offset in enumerate(offsets):
        left_s = seconds / number * (len(offsets) - number) if number else takes_s
        tell(_comparing(lever, number + 1, len(offsets), left_s))
        plain, changed = (RunRequest(levers=levers, seed_offset=offset, losses=True) for levers in ((), (lever,)))
        runs, ended = _both(make, (changed, plain) if number % 2 else (plain, changed), limits)
        seconds += sum(ran.seconds for ran in runs)
        if ended is not None:
            break
        as_is, with_lever = sorted(runs, key=lambda ran: len(ran.asked.levers))
        assert as_is.losses is not None
        assert with_lever.losses is not None
        if not with_lever.effect:
            idle = _idle(with_lever)
            numerics = compare_losses(pairs) if pairs else None
            return Check(lever=lever, state=WholeRunState.IDLE, reason=idle, numerics=numerics, seconds=seconds)
        pairs.append(Pair(seed=number + 1, without=as_is.losses, with_lever=with_lever.losses, first=with_lever.on_from or 0))
        if as_is.losses.first_not_finite or with_lever.losses.first_not_finite:
            break
    return Check(
        lever=lever,
        state=WholeRunState.DONE if ended is None else ended.state,
        reason=None if ended is None else ended.reason,
        numerics=compare_losses(pairs) if pairs else None,
        seconds=seconds,
    )


def _comparing(lever: LeverSpec, number: int, count: int, left_s: float | None) -> str:
    left = "" if left_s is None else f", about {format_about(left_s)} left"
    return f"losses with and without {lever}: {round_words(number, count, levers=1)}{left}"


def _why(ran: Ran) -> Reason:
    """Why a run was of no use: where nothing more is said of that, how it ended."""
    return ran.reason or SAID(said=ran.state.in_words)


def _idle(ran: Ran) -> Reason:
    assert ran.losses is not None
    steps = max(len(ran.losses) - (ran.on_from or 0), 0)
    return IDLE(steps=steps)


def _both(make: MakeExecutor, asked: tuple[RunRequest, RunRequest], limits: WholeRunLimits) -> tuple[list[Ran], Ran | None]:
    """Two runs, and the one of them that makes going on senseless. One that ended or was slow still counts for the steps that it made."""
    runs: list[Ran] = []
    for each in asked:
        ran = run_once(make, each, limits)
        runs.append(ran)
        if ran.state in (*_REFUSED, WholeRunState.LOSSES_UNSEEN) or _made(ran) < FEWEST_STEPS:
            return runs, ran
    return runs, None


def _made(ran: Ran) -> int:
    if ran.losses is not None:
        # A loss that is not finite says enough by itself.
        return FEWEST_STEPS if ran.losses.first_not_finite else len(ran.losses)
    return 0


def _is_useless(ran: Ran, most: int) -> bool:
    """One that ended or was slow still counts for the steps that it made."""
    return ran.state in _REFUSED or _steps_of(ran, most) < FEWEST_STEPS


def _steps_of(ran: Ran, most: int) -> int:
    return 0 if ran.steps is None else len(_counted(ran, ran.steps.ns, most))


def _counted(ran: Ran, values: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Of so many steps those after the warm-up, and after the lever was on: the plan's first step is the second update's, or a later one's.

    A run makes a few steps more until somebody sees that it has made enough: all runs count the same.
    """
    values = values[:most]
    return values[max(round(len(values) * WARMUP_SHARE), ran.on_from or 0) :]


def _are_by_samples(pairs: Sequence[tuple[Ran, Ran]], most: int) -> bool:
    return all(ran.steps is not None and bool(np.all(_counted(ran, ran.steps.samples, most) >= 0)) for pair in pairs for ran in pair)


def _throughputs(pairs: Sequence[tuple[Ran, Ran]], most: int) -> Throughputs:
    by_samples = _are_by_samples(pairs, most)
    as_is, changed = (float(np.mean([_throughput(pair[side], by_samples, most) for pair in pairs])) for side in (0, 1))
    return Throughputs(per="sample" if by_samples else "step", as_is_per_s=as_is, per_s=changed)


def _throughput(ran: Ran, by_samples: bool, most: int) -> float:
    """Samples, or steps, per second after the warm-up."""
    assert ran.steps is not None
    ns = _counted(ran, ran.steps.ns, most)
    done = int(_counted(ran, ran.steps.samples, most).sum()) if by_samples else len(ns)
    return done / (float(ns.sum()) / 1e9)
