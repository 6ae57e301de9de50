"""Two functions compared: calls of one go to the other.

The other one takes the same and returns the like.

What it changes:
    swap=MODULE:F=MODULE:G: while it is on, whoever calls F gets what G makes of the same arguments. Both are in what the script has
    imported; F is reached wherever it is held, and in the loader's workers, at their next batch. Inside G, F is itself: G may call it.
    Where F has a cache of functools, G makes what is not kept yet; where G has one, it is used.
What it answers:
    Whether the training is faster with G in F's place.
When it has no meaning:
    Where G does not take what F is called with, or raises where F does not: F's result is given then, and the arm is given up. Whether
    both return the same is not looked at: the losses are compared instead. For generators, coroutines and classes.
How it is undone:
    F is the same object all the time, and gets its own code back. Batches that workers made meanwhile are discarded. What the script
    or a cache kept of G's results stays.
"""

from __future__ import annotations

from slowstep.levers._calls.function_change import FunctionChange
from slowstep.levers._calls.functions import named
from slowstep.record.experiment.lever import NUMERICS, Change, Lever, LeverSpec, OnLongSteps
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Watch F, to see what it is called with. Raises NotApplicable where G cannot stand in for it, ValueError for unclear names."""
    return FunctionChange(training, spec)


LEVER = Lever(
    name="swap",
    takes="MODULE:F=MODULE:G",
    changes=frozenset({NUMERICS}),
    long_steps=OnLongSteps.OWN,
    prepare=prepare,
    read=named,
)
