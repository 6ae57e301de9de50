"""Which loader's batches validations wait for, and the function of the user's that makes most of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.batches.loader_identity import Make, loader_makes
from slowstep.analyses.python.binomial import share_bounds
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.analyses.python.functions import Path, Stacks, enclosing, inside, is_library
from slowstep.analyses.python.loop import LoopCall
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.timeline.intervals import overlap_ns
from slowstep.timeline.timeline import Timeline

# Where a stack leaves the framework's loader for what makes the samples, or puts them together.
LOADER = code(Code.LOADER)


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationBatches:
    """The loader that validations wait for most. `share`: of their time in the window.

    `function` is known by stacks of the training thread, so not where workers make the batches; its share is of the same time.
    """

    dataset: str | None
    num_workers: int
    share: float
    function: str | None = None
    function_share: float = 0.0


def find_validation_batches(
    timeline: Timeline, trainer: Trainer, steps: Steps, stacks: Stacks, whole_ns: float
) -> ValidationBatches | None:
    """What takes most of `whole_ns`, the validations in the window, where waits for the batches of one loader do; else None."""
    makes = loader_makes(timeline, trainer)
    waits = trainer.other_waits.sort("start_ns")
    of = [makes.get(iterator) for iterator in waits["iterator"].to_list()]
    held = _held_by(of, waits, steps)
    most = max(held, key=lambda make: held[make], default=None)
    if most is None or held[most] < DOMINANT_SHARE * whole_ns:
        return None
    dataset, _, _, num_workers = most
    share = min(held[most] / whole_ns, 1.0)
    own = waits.filter(pl.Series([make == most for make in of], dtype=pl.Boolean))
    # Those outside of the window tell what makes such a batch as well as others.
    taken = inside(stacks, own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
    function, part = mostly_in(stacks.paths(taken.tolist()), _below_loader, trainer.facts.script)
    known = function is not None and share * part >= DOMINANT_SHARE
    return ValidationBatches(
        dataset=dataset,
        num_workers=num_workers or 0,
        share=share,
        function=function if known else None,
        function_share=share * part if known else 0.0,
    )


def _held_by(of: list[Make | None], waits: pl.DataFrame, steps: Steps) -> dict[Make, float]:
    """How long the waits in the window took by the loader that each is `of`, where that is known."""
    low, high = steps.bounds_ns
    start, end = waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()
    within = overlap_ns(start, end, np.full_like(start, low), np.full_like(end, high))
    held: dict[Make, float] = defaultdict(float)
    for make, ns in zip(of, within.tolist(), strict=True):
        if make is not None:
            held[make] += ns
    return held


def mostly_in(
    paths: list[tuple[float, Path]], called_in: Callable[[Path], dict[int, LoopCall]], script: str | None
) -> tuple[str | None, float]:
    """The deepest function of the user's, of those `called_in` each stack, that surely holds most of them, and its share of their time."""
    whole = sum(weight for weight, _ in paths)
    weights: dict[LoopCall, list[float]] = defaultdict(list)
    depth: dict[LoopCall, int] = {}
    for weight, path in paths:
        for at, called in called_in(path).items():
            weights[called].append(weight)
            depth[called] = max(at, depth.get(called, 0))
    mostly = [called for called, found in weights.items() if share_bounds(len(found), len(paths))[0] >= DOMINANT_SHARE]
    deepest = max(mostly, key=lambda called: depth[called], default=None)
    return (None, 0.0) if deepest is None else (deepest.label(script), sum(weights[deepest]) / max(whole, 1.0))


def _below_loader(path: Path) -> dict[int, LoopCall]:
    """The user's functions that the framework's loader calls, each once, by depth; a comprehension is a part of the function around it."""
    first = next((at for at, frame in enumerate(path) if LOADER.search(frame.file)), len(path))
    own = ((at, frame) for at, frame in enumerate(path) if at > first and not is_library(frame))
    found = {LoopCall(frame.function, frame.file, frame.first_line): at for at, frame in own if enclosing(frame.function) == frame.function}
    return {at: called for called, at in found.items()}
