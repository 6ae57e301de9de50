"""After one half of a training was measured alone: the proof of what was found, or the look at the other half; and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slowstep.command_words import bench, prove, run
from slowstep.diagnosis.law import BOTTLENECK_PREDICTED
from slowstep.document.next_step import NextStep
from slowstep.levers.workers import LEAST_ADDED
from slowstep.prove.bench.loader_speed import Point
from slowstep.prove.bench.overlap import Whole
from slowstep.prove.stats.figures import Figure, combined, inverse
from slowstep.prove.stats.judging import WORTH
from slowstep.units import format_count, format_ratio, format_share
from slowstep.workflow.bench_request import BenchEndedBy, BenchRequest
from slowstep.workflow.next_command.command_lines import budget_words, filled_in, place_words, to_paste
from slowstep.workflow.usual import USUAL_BUDGET_S, longer_budget_s

_HALF: Final = 0.5
_NO_LOADER: Final = (
    "slowstep bench measures a torch DataLoader or a tf.data pipeline alone, and this training has none that it can read: "
    "this shows where a step's time goes, with any loader or none"
)

_FAILED: Final = "fix the script's own error first: it ended before the measurement was done"
_OTHERS: Final = "the training reads several loaders: this measures what waiting for them costs"
_OVERLAP: Final = "whether loading and computing overlap is unknown: this measures what waiting for input costs"
_SAMPLES: Final = "how many samples a step trains on is unknown: this shows where a step's time goes"
_FEW_STEPS: Final = "too few steps were made in the time to tell how fast the compute is"
_REFUSED: Final = "this training was not given cached batches, so its compute alone is unknown: this shows where a step's time goes"
_ELSE: Final[dict[BenchEndedBy, str]] = {
    BenchEndedBy.NEVER_TRAINED: "no training step was seen: this shows what was",
    BenchEndedBy.STOOD_STILL: "the training stopped before its loader could be read: this shows where its time goes",
}
# Of a measuring that ended before there was a whole: what makes the next one come further.
_INTERRUPTED: Final = "the measurement was interrupted"
_TOO_SHORT: Final = (
    "the script ended before the measurement was done: to measure its halves, let it train longer (more epochs, more steps); "
    "of a short training, this shows where its time goes"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchLacks:
    """Why the halves that were measured do not make the whole.

    `others`: other loaders are in neither. `overlap`, `samples`: it is not known if they overlap, or how many samples a step has. `steps`:
    the time was too short for the compute, which the other half's command would measure no longer. `cached`: the training was not given
    cached batches, and the other half's command would only say so again.
    """

    others: bool = False
    overlap: bool = False
    samples: bool = False
    steps: bool = False
    cached: bool = False


LACKS_NOTHING: Final = BenchLacks()


def after_bench(
    asked: BenchRequest,
    words: Sequence[str],
    *,
    point: Point | None,
    whole: Whole | None,
    wholes: Mapping[int, Whole],
    unsure: Mapping[int, Whole] | None = None,
    is_busy: bool = False,
    ended_by: BenchEndedBy = BenchEndedBy.DONE,
    failed: bool = False,
    nothing_trained: bool = False,
    lacks: BenchLacks = LACKS_NOTHING,
) -> NextStep:
    """The command that helps most now. `wholes`: the whole with each number of workers that is known, the loader's own among them.

    `unsure`: the same with all in their intervals that is not known, the next start of the script among it; `wholes` have this start.
    `is_busy`: whether others used the machine: how much workers gain is not said then.
    `failed`: whether the script ended with an error of its own. `nothing_trained`: whether it came to its own end without one and had not
    trained: the report says why, and no command follows, for any would only end the same way.
    """
    command = to_paste(words)
    if nothing_trained:
        return NextStep()
    if failed and ended_by == BenchEndedBy.NEVER_TRAINED:
        return _step(_bench(asked, asked.what, command), _FAILED)
    if lacks.others or lacks.overlap:
        return _step(_prove(asked, command, "mock-loader"), _OTHERS if lacks.others else _OVERLAP)
    if lacks.samples and ended_by == BenchEndedBy.DONE:
        # The other half's command walks the same blocks.
        return _step(_run(asked, command), _SAMPLES)
    if whole is None or point is None:
        return _without_whole(asked, command, ended_by, has_loader=point is not None, failed=failed, lacks=lacks)
    return _after_whole(asked, command, point, whole, wholes=wholes, known=unsure or wholes, is_busy=is_busy)


def _without_whole(
    asked: BenchRequest, command: str, ended_by: BenchEndedBy, *, has_loader: bool, failed: bool, lacks: BenchLacks
) -> NextStep:
    """The same where a half is missing: the script ended before, has no loader that can be measured, or the other half is still to come."""
    if ended_by == BenchEndedBy.SCRIPT_ENDED and not failed:
        # It would only end as early again.
        return _step(_run(asked, command), _TOO_SHORT)
    if ended_by in (BenchEndedBy.SCRIPT_ENDED, BenchEndedBy.INTERRUPTED):
        return _step(_bench(asked, asked.what, command), _FAILED if failed else _INTERRUPTED)
    if not has_loader:
        return _step(_run(asked, command), _ELSE.get(ended_by, _NO_LOADER))
    if lacks.steps:
        return _step(_bench(_longer(asked), asked.what, command), _FEW_STEPS)
    if lacks.cached:
        return _step(_run(asked, command), _REFUSED)
    other = "compute" if asked.what == "data" else "data"
    return _step(_bench(asked, other, command), "one half alone does not show what slows the training")


def _after_whole(
    asked: BenchRequest, command: str, point: Point, whole: Whole, *, wholes: Mapping[int, Whole], known: Mapping[int, Whole], is_busy: bool
) -> NextStep:
    """The same once both halves are known: the change that gains most, or the half that decides."""
    better, kept = better_workers(point.workers, wholes), kept_workers_gain(point, whole)
    if kept >= max(BOTTLENECK_PREDICTED, better[1] if better else 0.0):
        why = f"with workers that are kept between epochs: about {format_ratio(kept)} the throughput by these figures"
        return _step(_prove(asked, command, "persistent-workers"), why)
    if whole.binds == "compute":
        return _step(_run(asked, command, "--capture"), "computing takes longer than loading: this shows what it consists of")
    if better is not None:
        workers = better[0]
        most = None if is_busy else most_gain(known[workers], replace(known[point.workers], real=whole.real))
        gain = "" if most is None else f": up to {format_ratio(most)} the throughput by these figures"
        why = f"{_with(workers, point.workers)}{gain}"
        return _step(_prove(asked, command, f"workers={workers}"), why)
    if whole.how == "sum" and (computing := 1 - loading_share(point, whole)) > _HALF:
        why = f"computing takes {format_share(computing)} of the time, so more workers would gain little: this shows what it consists of"
        return _step(_run(asked, command, "--capture"), why)
    is_even = whole.how == "max" and whole.binds == "both"
    equal = "need the same cores" if whole.cores_bound else "take about as long" if is_even else None
    decides = f"loading and computing {equal}" if equal else "loading takes longer"
    if asked.what == "compute":
        return _step(_bench(asked, "data", command), f"{decides}: this measures the loader part by part")
    return _step(_prove(asked, command), f"{decides}: this tests what helps")


def _longer(asked: BenchRequest) -> BenchRequest:
    """The same with more time."""
    return replace(asked, budget_s=longer_budget_s(asked.budget_s))


def _step(command: str, why: str) -> NextStep:
    return NextStep(command=command, why=filled_in(command, why))


def _run(asked: BenchRequest, command: str, *options: str) -> str:
    """`slowstep run`, which needs no sandbox, into the same folder."""
    return run(command, *place_words(out=asked.out, allow_writes=False, sandbox=None), *options)


def _prove(asked: BenchRequest, command: str, levers: str | None = None) -> str:
    """`slowstep prove` with these levers, in the place in which `asked` was asked to run."""
    return prove(command, *(() if levers is None else ("--levers", levers)), *_place(asked))


def _bench(asked: BenchRequest, what: str, command: str) -> str:
    """`slowstep bench` in the same place, and with the same time."""
    budget = () if asked.budget_s == USUAL_BUDGET_S else budget_words(asked.budget_s)
    return bench(what, command, *budget, *_place(asked))


def _place(asked: BenchRequest) -> tuple[str, ...]:
    return place_words(out=asked.out, allow_writes=asked.allow_writes, sandbox=asked.sandbox)


def _with(workers: int, own: int) -> str:
    if not workers:
        return "without workers no batch is moved between processes"
    return f"with {format_count(workers, 'worker')} {'the loader is faster' if own else 'loading and computing overlap'}"


def better_workers(own: int, wholes: Mapping[int, Whole]) -> tuple[int, float] | None:
    """The fewest workers with which the training is nearly as fast as with any number, and its gain; None where none is worth a try.

    What is compared is the whole: a loader that is faster without workers no longer runs beside the compute.
    """
    if own not in wholes:
        return None
    best = max(whole.predicted.value for whole in wholes.values())
    fewest = min(workers for workers, whole in wholes.items() if whole.predicted.value * (1 + LEAST_ADDED) >= best)
    if fewest == own:
        return None
    gain = _gain(wholes[fewest], wholes[own])
    return (fewest, gain.value) if gain.value >= BOTTLENECK_PREDICTED and gain.low > WORTH else None


def most_gain(there: Whole, here: Whole) -> float | None:
    """How many times as fast as `here` the training is with the loader of `there` at most (97.5 %); None where too few blocks tell it.

    Halves that were measured alone may hinder each other, and nothing says how much with another number of workers: what they predict
    is the most that the training can make. A training that is slower than its own prediction has more to gain.
    """
    rates = [here.predicted] if here.real is None else [here.predicted, here.real]
    # Of an end that is so far off the bound would be mostly of how little was measured.
    if there.predicted.high * _HALF > there.predicted.value or any(rate.low < rate.value * _HALF for rate in rates):
        return None
    by_real = [] if here.real is None else [combined(np.multiply, there.predicted, inverse(here.real))]
    return max(gain.high for gain in (_gain(there, here), *by_real))


def kept_workers_gain(point: Point, whole: Whole) -> float:
    """How many times as fast the whole would be without workers being started and ended at each epoch; 1 where that is not known."""
    if point.starting is None or point.samples_per_s is None or whole.cores_bound:
        return 1.0
    saved_ms = min(point.starting / point.samples_per_s.value * 1e3, whole.starting_ms)
    return 1 / max(1 - whole.share_of(saved_ms), 1e-6)


def _gain(there: Whole, here: Whole) -> Figure:
    """How many times as fast. Both have the same compute: its draws are paired where both loaders have equally many, else it is wider."""
    one, other = there.predicted, here.predicted
    count = min(len(one.draws), len(other.draws))
    return Figure(value=one.value / other.value, draws=one.draws[:count] / np.maximum(other.draws[:count], other.value * 1e-6))


def loading_share(point: Point, whole: Whole) -> float:
    """The loader's share of the time where the training thread makes its batches itself."""
    assert point.samples_per_s is not None
    return whole.predicted.value / point.samples_per_s.value
