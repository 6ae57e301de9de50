"""How long a validation takes for a sample, held against the training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.input.validation_batches import mostly_in
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.functions import Path, Stacks, enclosing, inside, is_library
from slowstep.analyses.python.loop import LoopCall, meeting
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.stages import RESULT_STAGES
from slowstep.timeline.intervals import Ints, containing, overlap_ns, union

MODEL_CALL = code(Code.MODEL_CALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedSamples:
    """What validations were given in the window. None is unknown."""

    samples: float | None
    batch: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationPace:
    """In ns for each sample. None is unknown.

    `larger` is by how much more bytes a validation gives its model for a sample than the training does: 1 where that is no more, or not
    known. The shares are of validating; the function is the deepest of the user's that surely holds most of it.
    """

    sample_ns: float
    trained_ns: float  # of the training: all but what is done with results
    input_ns: float  # of that, what it waits for its input
    forward_ns: float | None  # of the training's, that forwards take on the host; where those were recorded
    forwards: float | None  # forwards of a sample in a validation; where those were recorded
    batch: float | None  # samples of its usual batch
    larger: float
    waiting_share: float
    forward_share: float | None  # in calls of models
    function: str | None = None
    function_share: float = 0.0


def find_validation_pace(
    trainer: Trainer, steps: Steps, stacks: Stacks, ledger: Ledger, whole_ns: float, judged: JudgedSamples, passes: tuple[Ints, Ints]
) -> ValidationPace | None:
    """Of what the validations of the window judge in `whole_ns`, in `passes` over their data; None where that is unknown."""
    trained, samples = float(steps.samples.sum()), judged.samples
    start, end = union(*passes)
    if not samples or not np.isfinite(trained) or trained <= 0 or steps.excluded.any() or not len(start):
        return None
    forwards = _forwards(trainer, steps, start, end)
    called, taught = forwards.filter("validates"), forwards.filter(~pl.col("validates") & pl.col("gradients").fill_null(True))
    spent = sum((ledger.ns[at] for at, part in enumerate(ledger.parts) if part.stage not in RESULT_STAGES), np.zeros(steps.count))
    taken = stacks.paths(inside(stacks, start, end).tolist())
    function, share = mostly_in(taken, lambda path: _called_in(path, trainer), trainer.facts.script)
    return ValidationPace(
        sample_ns=whole_ns / samples,
        trained_ns=float(spent.sum()) / trained,
        input_ns=float((ledger.of("read") + ledger.of("preprocess")).sum()) / trained,
        forward_ns=_length(taught) / trained if taught.height else None,
        forwards=_count(called, samples),
        batch=judged.batch,
        larger=_larger(called, samples, taught, trained),
        waiting_share=min(_waited(trainer, steps) / whole_ns, 1.0),
        forward_share=min(_length(called) / whole_ns, 1.0) if forwards.height else _share_in_models(taken),
        function=function,
        function_share=share,
    )


def _share_in_models(taken: list[tuple[float, Path]]) -> float | None:
    """By stacks; None where none stands in a call of one, which not all frameworks show."""
    in_models = sum(weight for weight, path in taken if any(MODEL_CALL.search(frame.file) for frame in path))
    return in_models / sum(weight for weight, _ in taken) if in_models else None


def passes_over_loaders(trainer: Trainer) -> tuple[Ints, Ints]:
    """From the first to the last request of each pass over other data than the training's. Workers that stay have one iterator for all."""
    waits = trainer.other_waits.sort("start_ns")
    update = np.searchsorted(trainer.update_end_ns, waits["start_ns"].to_numpy())
    of_update = waits.with_columns(pl.Series("update", update)).group_by("update", "iterator")
    passes = of_update.agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    return passes["start_ns"].to_numpy(), passes["end_ns"].to_numpy()


def _forwards(trainer: Trainer, steps: Steps, start: Ints, end: Ints) -> pl.DataFrame:
    """Those in the window, and whether they are of validations."""
    low, high = steps.bounds_ns
    rows = trainer.spans.filter(pl.col("kind") == "forward", pl.col("start_ns") >= low, pl.col("start_ns") < high).sort("start_ns")
    return rows.with_columns(validates=pl.Series(containing(start, end, rows["start_ns"].to_numpy()) >= 0, dtype=pl.Boolean))


def _length(forwards: pl.DataFrame) -> float:
    return float((forwards["end_ns"] - forwards["start_ns"]).sum())


def _count(forwards: pl.DataFrame, samples: float) -> float | None:
    known = forwards.height and not forwards["samples"].has_nulls()
    return float(forwards["samples"].sum()) / samples if known else None


def _larger(judged: pl.DataFrame, samples: float, taught: pl.DataFrame, trained: float) -> float:
    if any(rows.is_empty() or rows["bytes"].has_nulls() or not rows["bytes"].sum() for rows in (judged, taught)):
        return 1.0
    # Of one forward, however many a sample has.
    counts = [_count(rows, of) or 1.0 for rows, of in ((judged, samples), (taught, trained))]
    given = [float(rows["bytes"].sum()) / of / each for rows, of, each in zip((judged, taught), (samples, trained), counts, strict=True)]
    return max(given[0] / given[1], 1.0)


def _waited(trainer: Trainer, steps: Steps) -> float:
    """How long the validations in the window waited for batches."""
    low, high = steps.bounds_ns
    start, end = trainer.other_waits["start_ns"].to_numpy(), trainer.other_waits["end_ns"].to_numpy()
    return float(overlap_ns(start, end, np.full_like(start, low), np.full_like(end, high)).sum())


def _called_in(path: Path, trainer: Trainer) -> dict[int, LoopCall]:
    """The user's functions that a stack stands in beside those that lead to the update, each once, by depth."""
    way = trainer.way_to_update
    first = meeting(path, way)
    own = ((at, frame) for at, frame in enumerate(path) if at > first and not is_library(frame))
    found = {LoopCall(frame.function, frame.file, frame.first_line): at for at, frame in own if enclosing(frame.function) == frame.function}
    return {at: called for called, at in found.items()}
