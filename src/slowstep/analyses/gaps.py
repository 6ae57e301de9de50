"""Gaps of the training thread: time that no span covers, named by the stacks that were taken in it.

How long a gap lasted is exact; what ran in it is an estimate from stacks. A gap with two stacks or more of its own is divided by them; the
others share the mix of the stacks that fell into any of them.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.functions import Path, Stacks, above, called_framework, callee, in_module, inside, shown, writes
from slowstep.analyses.steps import Floats
from slowstep.analyses.trainer import Trainer
from slowstep.stages import UNATTRIBUTED
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Frame

Part = tuple[str, str]
OWN_STACKS = 2
# Fewer stacks than this in all gaps name nothing: the share of one among 5 has a 90 % interval of 1 % to 66 % (Clopper-Pearson).
FEWEST_STACKS = 5
# What runs in a model just before a backward, with no receipt of input before it (several updates on one batch), is that step's forward.
FORWARD: Part = ("compute", "forward, by stacks")


def name_gaps(
    trainer: Trainer, stacks: Stacks, start_ns: Ints, end_ns: Ints, step: Ints, count: int
) -> tuple[dict[Part, Floats], dict[Part, int]]:
    """Divide the gaps per step among named parts. Returns ns per step for each part, and the stacks behind each."""
    length = np.bincount(step, weights=(end_ns - start_ns).astype(np.float64), minlength=count).astype(np.float64)
    taken = inside(stacks, start_ns, end_ns)
    if len(taken) < FEWEST_STACKS:
        return {(UNATTRIBUTED, UNATTRIBUTED): length}, {}
    gap = np.searchsorted(start_ns, stacks.time_ns[taken], side="right") - 1
    backward = np.isin(end_ns, trainer.spans.filter(pl.col("kind") == "backward")["start_ns"].to_numpy())[gap]
    parts = [
        FORWARD if before and in_module(path) else _part(path, trainer)
        for before, (_, path) in zip(backward.tolist(), stacks.paths(taken.tolist()), strict=True)
    ]
    weight = stacks.weight_ns[taken]
    by_step = step[gap]
    own = np.bincount(by_step, minlength=count) >= OWN_STACKS
    pooled = ~own[by_step]
    named: dict[Part, Floats] = defaultdict(lambda: np.zeros(count))
    _divide(named, parts, weight, by_step, np.where(own, length, 0), ~pooled)
    rest = np.where(own, 0, length)
    total = weight[pooled].sum()
    if total > 0:
        for i in np.flatnonzero(pooled).tolist():
            named[parts[i]] += rest * (weight[i] / total)
    else:
        named[UNATTRIBUTED, UNATTRIBUTED] += rest
    counts: dict[Part, int] = defaultdict(int)
    for part in parts:
        counts[part] += 1
    return dict(named), dict(counts)


def _divide(named: dict[Part, Floats], parts: list[Part], weight: Floats, step: Ints, length: Floats, mine: NDArray[np.bool_]) -> None:
    """Divide each step's gap among its own stacks."""
    total = np.bincount(step[mine], weights=weight[mine], minlength=len(length))
    for i in np.flatnonzero(mine).tolist():
        k = step[i]
        if total[k] > 0:
            named[parts[i]][k] += length[k] * weight[i] / total[k]


def _part(path: Path, trainer: Trainer) -> Part:
    """Stage and name of what a stack in a gap was doing."""
    base = trainer.frame
    if base is None or not path:
        return UNATTRIBUTED, UNATTRIBUTED
    called = callee(path, base)
    if called is None:
        return UNATTRIBUTED, UNATTRIBUTED
    name, file, line = called
    label = f"{name} ({shown(file, trainer.facts.script)}:{line})"
    if _before_forward(path, base, trainer.facts.forward_frame, trainer):
        return "preprocess", label
    if writes(path):
        return "store", label
    # The framework's own code called by the loop itself (an average of weights, a scheduler, a read-back) is part of training.
    return ("compute" if called_framework(path, base) else "output"), label


def _before_forward(path: Path, base: Frame, forward: Frame | None, trainer: Trainer) -> bool:
    """In a loop without a loader, whether the training frame stands before its forward: that is input."""
    if not trainer.waits.is_empty() or forward is None:
        return False
    frames = above(path, base)
    if not frames or (forward.file, forward.function) != (base.file, base.function):
        return False
    return frames[0].line <= forward.line
