"""What is known of how often a training validates: without a loader whether in the loop that makes the steps, and on how many samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.after_update.roll_outs import forwards_of
from slowstep.analyses.input.validation_batches import ValidationBatches
from slowstep.analyses.over_time.validation_pace import JudgedSamples, ValidationPace
from slowstep.analyses.python.functions import Path, Stacks, inside, is_library
from slowstep.analyses.python.loop import NOWHERE, meeting
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.shares import MOSTLY
from slowstep.timeline.intervals import Ints, containing


@dataclass(frozen=True, kw_only=True, slots=True)
class Validations:
    """None is unknown."""

    among_steps: bool | None  # called in the innermost loop that makes the steps; else when that has ended, as after a pass
    samples_ratio: float | None  # samples of the validations in the window, over those that its steps trained on
    reads_own_loader: bool = False  # the training's own loader is read, without training on its batches
    batches: ValidationBatches | None = None  # where waiting for those of one loader is most of it
    pace: ValidationPace | None = None


def find_validations(trainer: Trainer, steps: Steps, stacks: Stacks) -> Validations:
    """Look at the stretches of repeated forwards without gradients that are no roll-outs, and at requests to other loaders."""
    start, end = repeated_forwards(trainer, stacks)
    read = trainer.other_waits.sort("start_ns")
    taken = np.union1d(inside(stacks, start, end), inside(stacks, read["start_ns"].to_numpy(), read["end_ns"].to_numpy()))
    return Validations(
        among_steps=_among_steps(trainer, [path for _, path in stacks.paths(taken.tolist())]),
        samples_ratio=_samples_ratio(trainer, steps, start, end),
    )


def find_fed_validations(trainer: Trainer, steps: Steps, count: int, every_steps: float | None) -> Validations:
    """Of a training that a loader feeds, by the batches of `count` validations in the window, one in so many steps."""
    judged = _judged(trainer, steps)
    own = trainer.other_starts.filter(pl.col("loader").is_in(trainer.starts["loader"].implode()))
    return Validations(
        among_steps=None,
        samples_ratio=None if every_steps is None else _ratio_of_one(steps, judged["samples"], count, every_steps),
        reads_own_loader=judged["iterator"].is_in(own["iterator"].implode()).any(),
    )


def repeated_forwards(trainer: Trainer, stacks: Stacks) -> tuple[Ints, Ints]:
    """Begins and ends of repeated forwards without gradients that are no roll-outs."""
    forwards = forwards_of(trainer, stacks)
    validates = ~forwards.apart_plays
    return forwards.apart_start_ns[validates], forwards.apart_end_ns[validates]


def samples_judged(trainer: Trainer, steps: Steps) -> JudgedSamples:
    """Those that other loaders than the training's gave in the window."""
    samples = _judged(trainer, steps)["samples"]
    unknown = samples.is_empty() or samples.has_nulls()
    return JudgedSamples(samples=None if unknown else float(samples.sum()), batch=None if unknown else float(np.median(samples.to_numpy())))


def _judged(trainer: Trainer, steps: Steps) -> pl.DataFrame:
    low, high = steps.bounds_ns
    return trainer.other_waits.filter(GAVE_BATCH, pl.col("start_ns") >= low, pl.col("start_ns") < high)


def _ratio_of_one(steps: Steps, judged: pl.Series, count: int, every_steps: float) -> float | None:
    """Of one validation, over the steps from one to the next: the window's ends cut off one of either."""
    trained_on = every_steps * float(steps.samples.mean())
    # Of steps that were only counted, nothing is known of validations among them.
    unknown = steps.excluded.any() or judged.is_empty() or judged.has_nulls() or not trained_on > 0
    return None if unknown else float(judged.sum()) / count / trained_on


def _among_steps(trainer: Trainer, paths: list[Path]) -> bool | None:
    told = [answer for path in paths if (answer := _is_among_steps(trainer, path)) is not None]
    # Of the stacks in validations that tell where they are called.
    return sum(told) >= MOSTLY * len(told) if told else None


def _is_among_steps(trainer: Trainer, path: Path) -> bool | None:
    """Whether a stack leaves the way to the update inside the innermost loop around that."""
    way, loops = trainer.way_to_update, trainer.loops_around
    depth = meeting(path, way)
    if loops is None or depth == NOWHERE or len(way) <= depth:
        return None
    deeper = way[depth + 1 :]
    if any(is_library(frame) for frame in deeper):
        # The loops of libraries are not known.
        return None
    places = [(frame.file, frame.function, frame.first_line) for frame in (way[depth], *deeper)]
    if any(place in loops for place in places[1:]):
        return False
    around = loops.get(places[0])
    return around is None or any(first <= path[depth].line <= last for first, last in around)


def _samples_ratio(trainer: Trainer, steps: Steps, start_ns: Ints, end_ns: Ints) -> float | None:
    """Of the model that the validations call most, by the forwards of the window."""
    low, high = steps.bounds_ns
    rows = trainer.spans.filter(pl.col("kind") == "forward", pl.col("start_ns") >= low, pl.col("start_ns") < high).sort("start_ns")
    rows = rows.with_columns(validates=pl.Series(containing(start_ns, end_ns, rows["start_ns"].to_numpy()) >= 0))
    rows = rows.filter(pl.col("gradients").fill_null(True) | pl.col("validates"))
    by_model = rows.group_by("module", "validates").agg(pl.col("samples").sum(), known=pl.col("samples").is_not_null().all())
    judged = by_model.filter("validates").sort("samples", descending=True)
    if judged.is_empty():
        return None
    trained = by_model.filter(~pl.col("validates"), pl.col("module").eq_missing(judged["module"][0]))
    if trained.is_empty() or not (judged["known"][0] and trained["known"][0]) or not trained["samples"][0]:
        return None
    return float(judged["samples"][0] / trained["samples"][0])
