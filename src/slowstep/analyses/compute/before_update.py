"""What runs between a step's backward and its update: clipping, as a rule, or metrics of gradients that nobody asked for at every step.

It belongs to `compute`. Whether the training needs it there only its author knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.python.functions import FEWEST_STACKS, Stacks, inside, is_library
from slowstep.analyses.python.loop import NOWHERE, LoopCall, called_from_loop, meeting
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints, containing


@dataclass(frozen=True, kw_only=True, slots=True)
class BeforeUpdate:
    """The function of the user's that most stacks between backward and update stand in, and the share of the window that is its."""

    name: str
    share: float
    stacks: int
    functions: frozenset[tuple[str, int]] = frozenset()  # it and what it calls of the user's there: file and first line


class _LoopCalls:
    """What the loop's lines call that these stacks stand in: how many of them, for how long, and in which functions of the user's."""

    def __init__(self, trainer: Trainer, stacks: Stacks, between: Ints) -> None:
        self.counts: Counter[LoopCall] = Counter()
        self.weights: Counter[LoopCall] = Counter()
        self.functions: defaultdict[LoopCall, set[tuple[str, int]]] = defaultdict(set)
        for weight, path in stacks.paths(between.tolist()):
            depth = meeting(path, trainer.way_to_update)
            called = called_from_loop(path, trainer.way_to_update)
            # What the loop's own lines call of torch is clipping; a comprehension is such a line, and the user's Python all the same.
            if depth != NOWHERE and called is not None and (called.is_function or not all(map(is_library, path[depth + 1 :]))):
                self.counts[called] += 1
                self.weights[called] += round(weight)
                self.functions[called].update((frame.file, frame.first_line) for frame in path[depth + 1 :] if not is_library(frame))


def find_before_update(trainer: Trainer, steps: Steps, stacks: Stacks) -> BeforeUpdate | None:
    """The user's function with most stacks there; None without backwards, with too few stacks, or where none stands in such a one."""
    backward = np.sort(trainer.backwards["end_ns"].to_numpy())
    if not len(backward):
        return None
    at = np.searchsorted(backward, trainer.update_start_ns, side="right") - 1
    known = at >= 0
    start, end = backward[np.maximum(at, 0)][known], trainer.update_start_ns[known]
    # Only a backward since the update before: an older one was for that update, and this one's own runs inside it, in a closure.
    own = start > np.append(-1, trainer.update_end_ns[:-1])[known]
    usable = own & (end > start) & steps.step_at(start)[1]
    start, end = start[usable], end[usable]
    taken = inside(stacks, start, end)
    # Of several optimizers the first ones update before the last, and what they do is no more to be left out than what that does.
    updates = trainer.outer_updates
    between = taken[containing(updates["start_ns"].to_numpy(), updates["end_ns"].to_numpy(), stacks.time_ns[taken]) < 0]
    calls = _LoopCalls(trainer, stacks, between)
    if len(between) < FEWEST_STACKS or not calls.weights:
        return None
    most, held = calls.weights.most_common(1)[0]
    whole = float(stacks.weight_ns[taken].sum())
    share = held / max(whole, 1.0) * float((end - start).sum()) / steps.length_ns
    name = most.label(trainer.facts.script)
    return BeforeUpdate(name=name, share=share, stacks=calls.counts[most], functions=frozenset(calls.functions[most]))
