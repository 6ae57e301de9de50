"""Drawing indices: what the loader's sampler does on the training thread, inside the request for the next batch.

A loader with workers asks its sampler for the next indices whenever a batch is received. Stacks tell it from receiving the batch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.functions import Path, Stacks, inside, own_frames
from slowstep.analyses.gaps import FEWEST_STACKS
from slowstep.analyses.producers import DRAWING, PART_STAGE, TRANSPORT, WaitParts
from slowstep.timeline.timeline import Frame

LOADER_FILE = "torch/utils/data/dataloader.py"
NEXT_INDEX = "_next_index"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """`function` is the sampler's with most stacks, the user's own where it has one. `share` is of all waits' time, from so many stacks in
    the sampler of so many in waits.
    """

    function: Frame
    share: float
    stacks: int
    of_stacks: int


def find_drawing(waits: WaitParts, stacks: Stacks) -> Drawing | None:
    """The sampler's work; None where too few stacks stand in it to tell."""
    order = np.argsort(waits.start_ns, kind="stable")
    taken = inside(stacks, waits.start_ns[order], waits.end_ns[order])
    whole, held = 0.0, 0.0
    functions: Counter[Frame] = Counter()
    for weight, path in stacks.paths(taken.tolist()):
        whole += weight
        below = _below_next_index(path)
        if below:
            held += weight
            functions[replace(own_frames(below)[-1], line=0)] += 1
    if functions.total() < FEWEST_STACKS:
        return None
    return Drawing(function=functions.most_common(1)[0][0], share=held / whole, stacks=functions.total(), of_stacks=len(taken))


def with_drawing(waits: WaitParts, drawing: Drawing) -> WaitParts:
    """The waits with the sampler's part of what was called transport under its own name."""
    column = {name: i for i, name in enumerate(PART_STAGE)}
    rest = waits.parts[:, column[TRANSPORT]]
    drawn = drawing.share * float((waits.end_ns - waits.start_ns).sum())
    part = min(drawn / max(float(rest.sum()), 1.0), 1.0)
    parts = waits.parts.copy()
    parts[:, column[DRAWING]], parts[:, column[TRANSPORT]] = rest * part, rest * (1 - part)
    return replace(waits, parts=parts)


def _below_next_index(path: Path) -> Path:
    """What the loader's call of its sampler had called; nothing where a stack does not stand there."""
    for depth, frame in enumerate(path):
        if frame.function.endswith(NEXT_INDEX) and frame.file.replace("\\", "/").endswith(LOADER_FILE):
            return path[depth + 1 :]
    return ()
