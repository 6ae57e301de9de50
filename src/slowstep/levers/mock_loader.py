"""Cached batches: what is gained if the input is always there.

What it changes:
    While it is on, the training gets copies of 16 real batches in turn, in the place of those of its loader. The loader's workers fill
    their queue and rest. Where the script changes batches in place, each is a fresh copy. Where several loaders are read, as by zip()
    or in turns, all of them are replaced. Of a pipeline of tf.data below Keras' fit the iterator is handed another resource of the same
    types: nothing is traced again, and the pipeline fills its buffers and rests.
What it answers:
    How much time goes to waiting for input, and how much faster the training would be with a loader that is never waited for. What the
    receipt of a ready batch takes cannot be saved; it is stated as `floor_ns`, and added for each batch of a step. Starting workers at a
    change of epoch stays.
When it has no meaning:
    Where neither a torch DataLoader nor, on the tensorflow backend of Keras, a pipeline of tf.data in fit feeds the training, another
    thread reads it, its iterators are not the framework's own, batches are divided among devices, or 16 batches take more than a quarter
    of the free memory. An epoch of a stream without a length is longer by the batches that were not its own; of tf.data it would never
    end with the lever on for good, as by `slowstep run --with`, where it is refused.
How it is undone:
    The loader's batches are given out again, after those that gathered meanwhile were received and discarded; an epoch has as many
    batches as ever. The copies are let go. Of tf.data no more is discarded than was given in its place, and the iterator goes on where
    it was.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import ORDER, Lever

# Real batches in turn, so that caches see about as much data as before.
RING: int = 16
# The lever's value with which changes of epoch cost nothing either: what `slowstep bench` calls the compute alone. Workers that rest go on
# resting, and none is started. Nobody can ask for it on a command line: it is no training that a faster loader could lead to.
ACROSS_EPOCHS: str = "across-epochs"

LEVER = Lever(name="mock-loader", changes=frozenset({ORDER}))
