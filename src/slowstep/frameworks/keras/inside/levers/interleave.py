"""A pipeline of tf.data that reads several inputs at once.

It is for `interleave(..., num_parallel_calls=tf.data.AUTOTUNE)`.

What it changes:
    A second pipeline, like the training's own but for each `flat_map`, that of `TFRecordDataset(files)` among them, and each `interleave`
    without num_parallel_calls, which then is an `interleave(..., num_parallel_calls=tf.data.AUTOTUNE)`, is started with it; while the
    lever is on the training gets that one's batches. An `interleave` keeps its order; of a `flat_map` one element comes of each input in
    turn, of as many inputs as TensorFlow chooses by the number of cores: the same elements in another order, so batches hold others. On
    two cores it chooses one, and only begins the next inputs ahead. It begins the data again where they end.
What it answers:
    What is gained where files are read one after the other and the training waits for that: much where each read waits (a disk, a
    server), little where one thread reads as fast as the storage gives, or where what is done with a sample takes the time.
When it has no meaning:
    Where no such stage is in the pipeline, or it has one input; where a `flat_map` joins parts of what came before it (`window`), whose
    order is what they mean; and as of parallel-calls. Where the order of samples across inputs means something else (batch() is to make a
    sequence of the lines of one file) nobody sees that: the lever then measures a speed, and the change is not to be made.
How it is undone:
    As parallel-calls.
"""

from __future__ import annotations

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.frameworks.tensorflow.inside._input.interleaved import interleave_inputs
from slowstep.frameworks.tensorflow.inside._input.rebuilt import RebuiltPipeline
from slowstep.record.experiment.lever import DEMAND, ORDER, Change, Implementation, Lever, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Raises NotApplicable where no pipeline of tf.data feeds a call of fit, or none of its stages reads one input after the other."""
    FRAMEWORK.given.check_dataset()
    return RebuiltPipeline(training, interleave_inputs)


IMPLEMENTATION = Implementation(lever=Lever(name="interleave", changes=frozenset({ORDER, DEMAND})), prepare=prepare)
