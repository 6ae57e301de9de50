"""A function that does nothing: it returns what it returned before.

It may be any function or method of the script or of a library.

What it changes:
    MODULE:FUNCTION or MODULE:Class.method, in what the script has imported; the script itself goes by `__main__` or by its file's name. All
    who hold the function are reached: modules that imported it by name, lists of transforms, and the loader's workers, at their next batch.
    With `:every=k` one call in k is made. Where results have a size, one is kept for each shape of the arguments. Below a cache of
    functools (`cache`, `lru_cache`, `cached_property`) the calls are answered that find nothing kept; the cache keeps these answers.
What it answers:
    What the training would gain if this function cost nothing: a callback, a metric, a transform, a plot of the script's own.
When it has no meaning:
    For what the training cannot go on without: a function inside which gradients are made, the model is updated, or input is asked for,
    and one whose result carries gradients. For generators, coroutines, classes, results that can be used only once, and results that the
    script changes afterwards or gives away (`donate_argnums`). A change that is made inside an object of the script's own cannot be seen.
    Functions of processes that the script starts itself, and code that is compiled already, are not reached: the effect is 0 then, as it is
    where a cache has it all.
How it is undone:
    The function is the same object all the time, and gets its own code back. Batches that workers made meanwhile are discarded. What
    the script or a cache kept of the answers stays.
"""

from __future__ import annotations

from slowstep.levers._calls.function_change import FunctionChange
from slowstep.levers._calls.functions import named
from slowstep.record.experiment.lever import Change, Lever, LeverSpec, OnLongSteps
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Watch the function, to keep what it returns. Raises NotApplicable for one that cannot be left out, ValueError for an unclear name."""
    return FunctionChange(training, spec)


LEVER = Lever(name="stub", takes="MODULE:FUNCTION", every=True, long_steps=OnLongSteps.OWN, same_numbers=False, prepare=prepare, read=named)
