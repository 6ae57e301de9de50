"""What the whole of a training says of its halves, and what busy machines and the page cache do to the figures."""

from __future__ import annotations

import math
from typing import Final

from slowstep.analyses.machine.load import Load
from slowstep.prove.bench.loader_speed import FEW
from slowstep.prove.bench.overlap import CLOSE, Whole
from slowstep.reasons import Reason, Wording

# A smaller share of the time is no finding (docs/definitions.md: at least 3 % of the window).
LEAST_SAID: Final = 0.03
# From here on a percentage is read wrongly ("200 % more" for three times): a factor says it.
AS_FACTOR: Final = 2.0

WHOLE: Final = Wording("whole-of-halves", "{halves}{starting}.{agreement}")
ADD_UP: Final = Wording("halves-add-up", "The training thread makes its own batches, so loading and computing add up")
NEED_CORES: Final = Wording("halves-need-cores", "Loading and computing overlap, but together they need more cores than there are")
EVEN: Final = Wording("halves-even", "Loading and computing overlap, and neither is clearly the slower")
LOADING_BINDS: Final = Wording("loading-binds", "Loading and computing overlap, and loading is the slower")
COMPUTING_BINDS: Final = Wording("computing-binds", "Loading and computing overlap, and computing is the slower")
STARTING: Final = Wording("epochs-wait", ", except for {share:share} of the time, when an epoch waits for its first batch")

WITHIN: Final = Wording("whole-within", " The prediction is within {share:share} of the training's speed.")
OFF: Final = Wording("whole-off", " {beside}{why}")
REACHES: Final = Wording("training-reaches", "The training reaches {share:share} of the prediction")
FASTER: Final = Wording("training-faster", "The training is {share:share} faster than predicted")
TIMES_AS_FAST: Final = Wording("training-times-as-fast", "The training is {factor:times} as fast as predicted")
TOO_WIDE: Final = Wording("whole-too-wide", ", but their intervals overlap: a larger --budget narrows them.")
ELSE_TAKES: Final = Wording("else-takes-time", ": something else takes time, or the two slow each other down.")
SLOWER_ALONE: Final = Wording(
    "half-slower-alone", ": one half was slower alone than in the training, as happens on a busy machine. Measure again."
)

BUSY: Final = Wording(
    "bench-on-busy-machine",
    "busy machine: other processes used {used:.1f} of {cores:g} {cores:plural core|cores}. Intervals reach up to the speed expected on a "
    "quiet machine; for reliable figures, measure again on one",
)
COLDER_BEFORE: Final = Wording(
    "cache-colder-before",
    "fewer files were cached when the script began ({share:share} of what its workers had read before came from storage): a first epoch "
    "may load more slowly than this",
)
CACHE_CHANGED: Final = Wording(
    "cache-changed",
    "the page cache changed meanwhile ({first:share} of its bytes came from storage in its first reading, {last:share} in the last): the "
    "loader alone is the first reading, the curve the later ones",
)


def of_whole(whole: Whole) -> Reason:
    """How the halves make the whole, and whether they do."""
    share = whole.share_of(whole.starting_ms)
    return WHOLE(halves=_halves(whole), starting=STARTING(share=share) if share >= LEAST_SAID else None, agreement=_agreement(whole))


def of_busy_machine(load: Load) -> Reason | None:
    """That others used so much of the machine that speeds are doubtful; None where they did not."""
    if not load.busy or load.foreign_cores is None or load.cores is None:
        return None
    return BUSY(used=load.foreign_cores, cores=load.cores)


def of_cache(before: float | None, first: float | None, change: tuple[float, float] | None) -> list[Reason]:
    """What is to be known where files were colder at another time than in the figures. Shares of bytes from storage: `before` the loader
    was measured, in its `first` reading, and (`change`) in the first and the last one of its own workers where these differ."""
    found = []
    if before is not None and first is not None and before - first > FEW:
        found.append(COLDER_BEFORE(share=before))
    if change is not None:
        found.append(CACHE_CHANGED(first=change[0], last=change[1]))
    return found


def _halves(whole: Whole) -> Reason:
    if whole.how == "sum":
        return ADD_UP()
    if whole.cores_bound:
        return NEED_CORES()
    if whole.binds == "both":
        return EVEN()
    return LOADING_BINDS() if whole.binds == "loader" else COMPUTING_BINDS()


def _agreement(whole: Whole) -> Reason | None:
    """How the prediction and the training agree; None where one of them is not known."""
    if whole.real is None or whole.log_error is None:
        return None
    predicted, real = whole.predicted.value, whole.real.value
    if whole.log_error <= math.log1p(CLOSE):
        return WITHIN(share=abs(predicted / real - 1))
    why = TOO_WIDE() if whole.agrees else ELSE_TAKES() if predicted > real else SLOWER_ALONE()
    return OFF(beside=_real_by_predicted(predicted, real), why=why)


def _real_by_predicted(predicted: float, real: float) -> Reason:
    """What the training really makes, by what is predicted."""
    if real < predicted:
        return REACHES(share=real / predicted)
    if real < AS_FACTOR * predicted:
        return FASTER(share=real / predicted - 1)
    return TIMES_AS_FAST(factor=real / predicted)
