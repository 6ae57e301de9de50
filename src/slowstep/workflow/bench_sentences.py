"""What the whole of a training says of its halves, and what the page cache does to the figures, in sentences."""

from __future__ import annotations

import math
from typing import Final

from slowstep.analyses.machine.load import Load
from slowstep.prove.bench.loader_speed import FEW
from slowstep.prove.bench.overlap import CLOSE, Whole
from slowstep.units import format_share, format_times

# A smaller share of the time is no finding (docs/definitions.md: at least 3 % of the window).
LEAST_SAID: Final = 0.03
# From here on a percentage is read wrongly ("200 % more" for three times): a factor says it.
AS_FACTOR: Final = 2.0


def whole_sentence(whole: Whole) -> str:
    """How the halves make the whole, and whether they do."""
    if whole.how == "sum":
        text = "The training thread makes its own batches, so loading and computing add up"
    elif whole.cores_bound:
        text = "Loading and computing overlap, but together they need more cores than there are"
    elif whole.binds == "both":
        text = "Loading and computing overlap, and neither is clearly the slower"
    else:
        text = f"Loading and computing overlap, and {'loading' if whole.binds == 'loader' else 'computing'} is the slower"
    if (share := whole.share_of(whole.starting_ms)) >= LEAST_SAID:
        text += f", except for {format_share(share)} of the time, when an epoch waits for its first batch"
    if whole.real is None or whole.log_error is None:
        return f"{text}."
    predicted, real = whole.predicted.value, whole.real.value
    if whole.log_error <= math.log1p(CLOSE):
        return f"{text}. The prediction is within {format_share(abs(predicted / real - 1))} of the training's speed."
    off = f"{text}. {_beside(predicted, real)}"
    if whole.agrees:
        return f"{off}, but their intervals overlap: a larger --budget narrows them."
    if predicted > real:
        return f"{off}: something else takes time, or the two slow each other down."
    return f"{off}: one half was slower alone than in the training, as happens on a busy machine. Measure again."


def busy_sentence(load: Load) -> str | None:
    """That others used so much of the machine that speeds are doubtful; None where they did not."""
    if not load.busy or load.foreign_cores is None or load.cores is None:
        return None
    return (
        f"busy machine: other processes used {load.foreign_cores:.1f} of {load.cores:g} core{'' if load.cores == 1 else 's'}. Intervals "
        "reach up to the speed expected on a quiet machine; for reliable figures, measure again on one"
    )


def cache_sentences(before: float | None, first: float | None, change: tuple[float, float] | None) -> list[str]:
    """What is to be known where files were colder at another time than in the figures. Shares of bytes from storage: `before` the loader
    was measured, in its `first` reading, and (`change`) in the first and the last one of its own workers where these differ."""
    found = []
    if before is not None and first is not None and before - first > FEW:
        came = f"{format_share(before)} of what its workers had read before came from storage"
        found.append(f"fewer files were cached when the script began ({came}): a first epoch may load more slowly than this")
    if change is not None:
        came = f"{format_share(change[0])} of its bytes came from storage in its first reading, {format_share(change[1])} in the last"
        found.append(f"the page cache changed meanwhile ({came}): the loader alone is the first reading, the curve the later ones")
    return found


def _beside(predicted: float, real: float) -> str:
    """What the training really makes, by what is predicted."""
    if real < predicted:
        return f"The training reaches {format_share(real / predicted)} of the prediction"
    if real < AS_FACTOR * predicted:
        return f"The training is {format_share(real / predicted - 1)} faster than predicted"
    return f"The training is {format_times(real / predicted)} as fast as predicted"
