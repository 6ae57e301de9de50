"""What a pipeline of tf.data makes again in each epoch, stored.

It is for `cache()` behind the last stage that gives the same in each epoch.

What it changes:
    A second pipeline, like the training's own but for a `cache()` in memory behind the last stage that gives the same in the same order in
    each epoch, is started with it; while the lever is on the training gets that one's batches. What comes behind that stage (a shuffle,
    random changes, batches) is done as ever, and the numbers are those that the training's own would make. Before the first block all
    that is stored is read through once, half a second between two steps: no block fills it. It begins the data again where they end.
What it answers:
    What the training gains if that part of each sample is made once: all of it from the second epoch on, and nothing in the first. Where
    what costs time comes behind the stage, little. The memory that it takes is not free for anything else.
When it has no meaning:
    Where nothing that is read or computed is surely the same in each epoch: behind a shuffle or an endless `repeat`; stages whose functions
    call operations with a state (random numbers, variables) or Python; those that give elements in any order, and those that slowstep
    does not know. The reason names the stage. Also where it would take more than a quarter of the free memory (by the elements stored so
    far, and how many there are, where TensorFlow knows that), where nobody knows what it takes (sparse and ragged tensors), where a whole
    epoch is not stored within the 20 s, or half of the budget, that levers may take to be made ready, where it has a cache already,
    and as of parallel-calls. What changes from epoch to epoch outside of the pipeline (files that the script writes) is not seen.
How it is undone:
    The iterator reads its own pipeline again, after what gathered meanwhile was discarded; the second pipeline ends, and what was
    stored is let go.
"""

from __future__ import annotations

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.frameworks.tensorflow.inside._input.stored import StoredPipeline
from slowstep.record.experiment.lever import ORDER, Change, Implementation, Lever, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no pipeline of tf.data feeds a call of fit, or nothing of it can be stored."""
    FRAMEWORK.given.check_dataset()
    return StoredPipeline(training)


IMPLEMENTATION = Implementation(lever=Lever(name="cache", changes=frozenset({ORDER})), prepare=prepare)
