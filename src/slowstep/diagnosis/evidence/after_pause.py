"""What follows a pause of the training thread is slow, too: how much of the step after it goes with the pause.

A thread that slept, or did anything else, finds its caches cold. Where the pause is not in every step, the steps right after one are
compared with their neighbours; else it is what was measured of other trainings (benchmarks/after_pause.md). What a fix spares is the
difference that its pauses make: a thread that stands still nevertheless, waiting for input or in another callback, is as slow after that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.chance import NORMAL_95
from slowstep.analyses.steps.steps import REQUEST_FOR_INPUT, Floats
from slowstep.calibration import after_pause
from slowstep.diagnosis.gain import Case, Counterfactual
from slowstep.findings import Evidence
from slowstep.parts import PartKind
from slowstep.units import format_count

Flags = NDArray[np.bool_]

# The second and the third are the pauses that were measured (calibration/after_pause.py). After the third caches are cold, whatever was
# done, so longer ones have no more effect. Chosen: of shorter ones than the second nothing was measured, and below the first none counts.
SHORTEST_NS, SHORT_NS, LONG_NS = 1e6, 3e6, 25e6
# Of a step after a pause, and of as many neighbours without one: the fewest of which trimming leaves six, and so the five degrees of
# freedom from which on the quantiles of `_student` hold.
STEPS_AT_LEAST = 10
# Chosen: what is left out at either end, so that the middle half counts. Others hold up many steps on a busy machine.
TRIMMED = 0.25
# Chosen: how many steps before and after one are its neighbours. Both sides, so that a pace that drifts is in both, and near.
NEIGHBOURS = (-2, -1, 1, 2)
# Chosen: what is shorter than such a share of the usual pause is none. Where pauses are in every step, of about the shortest that counts,
# there is nothing to compare.
NONE_SHARE = 0.25
# Chosen: a step whose thread pauses for something else, too, is no usual one. That is for so much longer than in the median step, as the
# shortest pause that counts is, or by such a share of the pause that is judged.
OTHERS_NS, OTHERS_SHARE = SHORTEST_NS, 0.25
# What is in `compute` and no work of the thread's own, besides waiting for a core.
_NO_WORK: Final = (PartKind.HELD_UP, PartKind.COMPILING, PartKind.COMPILATION)


@dataclass(frozen=True, kw_only=True, slots=True)
class SparedAfterPauses:
    """Ns per step that the steps after pauses get shorter by without them: as expected, at least and at most.

    `pauses` is how many fall away; `compared` of how many steps after one it is known, None where other trainings tell.
    """

    expected: Floats
    low: Floats
    high: Floats
    pauses: float
    compared: int | None

    def each_ns(self, per_step: Floats) -> float:
        """The same of one step after a pause."""
        return float(per_step.sum()) / self.pauses


class _AssumedSlowness(NamedTuple):
    """How much longer (ns) a step is after a pause of SHORT_NS, and of LONG_NS, but no more than a share of its work."""

    short: float
    long: float
    most: float


# As expected, at least and at most.
_ASSUMED: Final = tuple(
    _AssumedSlowness(*ends)
    for ends in zip(
        *(
            (each.value, *each.bounds)
            for each in (after_pause.AFTER_SHORT_PAUSE, after_pause.AFTER_LONG_PAUSE, after_pause.AFTER_PAUSE_AT_MOST)
        ),
        strict=True,
    )
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _LongerSteps:
    """By how much a step after a pause is longer than its neighbours (ns), with its 90 % interval, of `steps` of them."""

    value: float
    low: float
    high: float
    steps: int


def after_pauses(m: Measurements, pause_ns: Floats, *, removed_ns: Floats | None = None, share: float = 1.0) -> SparedAfterPauses | None:
    """What goes with pauses of `pause_ns` per step, where a `share` of them falls away, or `removed_ns` of each.

    None where there are none, or where work is done beside the thread that pauses: on an accelerator, or by a runtime that goes on.
    """
    removed = pause_ns if removed_ns is None else np.minimum(removed_ns, pause_ns)
    falls_away = removed >= SHORTEST_NS
    if m.compute.device != "cpu" or m.trainer.is_asynchronous or not falls_away.any():
        return None
    work = _work_ns(m)
    still = np.maximum(m.step_ns - work, 0.0)
    own = float((work - m.ledger.of("compute", PartKind.CORE_WAIT)).mean())

    def slower(still_ns: Floats, assumed: _AssumedSlowness) -> Floats:
        return np.minimum(np.interp(still_ns, (SHORTEST_NS, SHORT_NS, LONG_NS), (0.0, assumed.short, assumed.long)), assumed.most * own)

    def spared(assumed: _AssumedSlowness) -> Floats:
        left = slower(np.maximum(still - removed, 0.0), assumed)
        return np.where(falls_away, share * (slower(still, assumed) - left), 0.0)

    expected, low, high = map(spared, _ASSUMED)
    # A short step may be as slow as it can be after what is left of a pause, too.
    high = np.maximum(high, expected)
    pauses = share * int(falls_away.sum())
    longer = _compared(m, pause_ns, work)
    if longer is None:
        return SparedAfterPauses(expected=expected, low=low, high=high, pauses=pauses, compared=None)
    # Of what stays of such a pause, and of other ones, the step after it is as slow as it would be elsewhere.
    before = slower(still, _ASSUMED[0])
    goes = np.divide(expected, before, out=np.zeros_like(still), where=before > 0)
    certain = longer.value if longer.low > 0 else 0.0
    expected, low, high = (goes * max(ns, 0.0) for ns in (certain, longer.low, longer.high))
    return SparedAfterPauses(expected=expected, low=low, high=high, pauses=pauses, compared=longer.steps)


def _work_ns(m: Measurements) -> Floats:
    """What the training thread computes for each step: forward, backward and update, with waits for a core.

    These are known by marks some milliseconds apart, so not in which of several short steps they were.
    """
    return m.ledger.of("compute") - m.ledger.of("compute", *_NO_WORK)


def _compared(m: Measurements, pause_ns: Floats, work: Floats) -> _LongerSteps | None:
    """Steps after pauses beside their neighbours, so that a pace that drifts is in both. None where there are too few of either."""
    paused = pause_ns >= SHORTEST_NS
    usual = _usual(m, pause_ns, paused, work)
    after, follows = _after(m, paused)
    after_usual, _ = _after(m, usual)
    after_none, _ = _after(m, pause_ns < NONE_SHARE * float(np.median(pause_ns[paused])))
    is_after, plain = (each & after_usual & usual & follows for each in (after, after_none & ~after))
    # A neighbour that pauses has its own work before that: only what precedes a step counts. Each is compared by itself: were both alike,
    # differences of two are symmetric, however heavy the tails of either.
    beside = np.where(plain, work, np.nan)
    longer = [(work - _shifted(beside, by))[is_after] for by in NEIGHBOURS]
    known = [ns for each in longer if len(ns := each[~np.isnan(each)]) >= STEPS_AT_LEAST]
    if not known:
        return None
    value, low, high = np.mean([_trimmed(ns) for ns in known], axis=0)
    return _LongerSteps(value=float(value), low=float(low), high=float(high), steps=max(map(len, known)))


def _usual(m: Measurements, pause_ns: Floats, paused: Flags, work: Floats) -> Flags:
    """Which steps have nothing else that tells them from others: a pass over the input that begins, a smaller batch, another pause."""
    others = m.step_ns - work - pause_ns
    room = max(OTHERS_NS, OTHERS_SHARE * float(np.median(pause_ns[paused])))
    samples = m.steps.samples
    as_large = np.isnan(samples) | (samples == m.steps.batch_size) if m.steps.batch_size is not None else np.ones_like(paused)
    begins = m.ledger.of("preprocess", PartKind.LOADER_START) > 0
    return np.asarray((others <= np.median(others) + room) & as_large & ~begins)


def _after(m: Measurements, flags: Flags) -> tuple[Flags, Flags]:
    """Which steps' work follows a flagged pause, and of which it is known what they follow.

    What runs after an update ends a step that begins with a request for input, and begins one that ends with the optimizer's call.
    """
    if m.steps.boundary != REQUEST_FOR_INPUT:
        return flags, np.ones_like(flags)
    kept = np.flatnonzero(~m.steps.excluded)
    follows = np.append(False, np.diff(kept) == 1)
    return np.append(False, flags[:-1]) & follows, follows


def _shifted(values: Floats, by: int) -> Floats:
    """The value so many places further on; NaN beyond the ends."""
    shifted = np.full_like(values, np.nan)
    if by < 0:
        shifted[-by:] = values[:by]
    else:
        shifted[:-by] = values[by:]
    return shifted


def _trimmed(longer: Floats) -> tuple[float, float, float]:
    """The trimmed mean and its 90 % interval: the standard error by winsorized values, Student's t with one degree of freedom less than
    values that are kept (Tukey and McLaughlin, 1963).
    """
    ordered, cut = np.sort(longer), int(TRIMMED * len(longer))
    kept = ordered[cut : len(ordered) - cut]
    winsorized = np.clip(ordered, kept[0], kept[-1])
    error = float(winsorized.std(ddof=1)) * math.sqrt(len(ordered)) / len(kept)
    value = float(kept.mean())
    half = _student(len(kept) - 1) * error
    return value, value - half, value + half


def _student(freedom: int) -> float:
    """Half of a 90 % interval of Student's t, from 5 degrees of freedom on to a hundredth (Abramowitz and Stegun, 26.7.5)."""
    z = NORMAL_95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def with_pauses(counterfactual: Counterfactual, spared: SparedAfterPauses | None) -> Counterfactual:
    """The counterfactual, whose steps after pauses are shorter, too."""
    if spared is None:
        return counterfactual
    return replace(
        counterfactual,
        expected=_with(counterfactual.expected, spared.expected),
        pessimistic=_with(counterfactual.pessimistic, spared.low),
        optimistic=_with(counterfactual.optimistic, spared.high),
    )


def _with(case: Case, spared_ns: Floats) -> Case:
    """None of what is spared after a pause was waited for a core."""
    removed = case.removed_ns + spared_ns
    whole = float(removed.sum())
    queued = case.delay_share * float(case.removed_ns.sum()) / whole if whole > 0 else 0.0
    return replace(case, removed_ns=removed, delay_share=queued)


def longer_after(spared: SparedAfterPauses | None) -> tuple[Evidence, ...]:
    """As evidence: by how much a step after a pause is longer, of that which the fix spares."""
    if spared is None or not spared.high.any():
        return ()
    low, high = (spared.each_ns(ns) / 1e6 for ns in (spared.low, spared.high))
    known = "as in other trainings" if spared.compared is None else f"by {format_count(spared.compared, 'step')} above their neighbours"
    value, where = spared.each_ns(spared.expected) / 1e6, f"{low:.1f} to {high:.1f}, {known}"
    return (Evidence(name="the step after it is longer by", value=value, unit="ms", where=where),)
