"""Another batch size: its throughput in samples and its peak memory.

What it changes:
    A second loader, like the training's own but for the size of its batches, is started with it; while the lever is on the training gets
    that one's batches. In Keras' `fit` with TensorFlow there is no second pipeline: several of its batches are joined where they are
    fetched, and its `train_step` gets them as one, so N is a multiple of the own size, and an epoch has as many samples as before, in fewer
    steps. Callbacks are called once for those that were joined; what is left at the end of an epoch is trained on batch by batch.
What it answers:
    Samples per second (`throughput` of its row), and the peak of memory, at this batch size and at the own one. Of a process that holds
    what its allocator keeps of other sizes: of several that are tried, smaller ones seem to need more than they do alone, so try a size by
    itself for its memory. The learning rate stays as it is, and nothing is said about the loss. An epoch keeps its number of steps, so that
    no script is asked for more or fewer of them than it expects: what is done once an epoch is done once in more (or fewer) samples than it
    would be. The second loader begins its own next epoch where its data ends, as it would in a training with batches of that size.
When it has no meaning:
    Where the loader has a batch sampler of the user's own or makes no batches, where code was compiled for its shapes, where a call in the
    script, outside of a data set's class, makes a shape with as many in its first or second place as the batch size, and no batch of
    another size was ever trained on, where the training reads several loaders, and where the loader cannot be built a second time (see
    workers). Where about as much memory as there is would be needed the lever is not switched on: the estimate is then what is known of
    that size. Nor is it where, by what the loader's own batches take, those of this size would take too long to make for the experiment's
    budget; where its first two steps show that 8 blocks of such steps do not fit there, it is given up after them. What a script raises
    because of a batch of another size ends the script: it is started once more without this size, and where memory was too small that is
    what is said of it. With Keras it has none where the step runs eagerly, makes several steps in a call, belongs to several replicas, or
    returns before its work is done, as all do on an accelerator; none either where samples of one batch differ in shape from those of the
    next (each batch padded to its own longest), or the model has its batch size in it. That shows where batches are joined: the lever is
    given up then, as where memory is too small, and the epoch is as many batches shorter as were joined. What that step did before it
    failed stays: the optimizer may have counted it. What making a batch takes is that of the own size, so many times.
How it is undone:
    As workers. In Keras the call that trains is put back; it was not changed.
"""

from __future__ import annotations

from typing import Final

from slowstep.levers._count import count_of
from slowstep.record.experiment.lever import DEMAND, NUMERICS, ORDER, Lever, LeverSpec, OnLongSteps

_HINT: Final = "; for twice your own give that size, such as batch-size=32 for 16"
UNTOLD: Final = "its batches do not say how many samples they hold"


def read_batch_size(spec: LeverSpec) -> int:
    """The N. Raises ValueError where it is none, or under 1."""
    return count_of(spec, least=1, hint=_HINT)


LEVER = Lever(
    name="batch-size",
    takes="N",
    changes=frozenset({NUMERICS, ORDER, DEMAND}),
    long_steps=OnLongSteps.OWN,
    read=read_batch_size,
)
