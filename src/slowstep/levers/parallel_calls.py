"""A pipeline of tf.data whose maps make several calls at once.

What it changes:
    A second pipeline, like the training's own but for each `map` without num_parallel_calls, which then has tf.data.AUTOTUNE, is started
    with it; while the lever is on the training gets that one's batches. Each rests while the other is asked. The order within it is as
    ever (deterministic as the pipeline's options say); it begins the data again where they end. Stages inside of flat_map and interleave
    stay as they are.
What it answers:
    What parallel calls gain on this machine: little where the function is in Python, which runs one call at a time, and where all cores
    are busy.
When it has no meaning:
    Where no pipeline of tf.data feeds Keras' fit on the tensorflow backend, where each of its maps makes calls in parallel already, and
    where it cannot be built a second time: its functions use variables or tables, it holds more than 256 MiB of data itself, it has a
    cache or a snapshot, or it reads a generator in Python or a tf.data service, which both would take from. Functions in Python are
    called for both pipelines. An epoch of a stream without a length is longer by the batches that were not
    its own, and with the lever on for good, as by `slowstep run --with`, it is refused there.
How it is undone:
    The iterator reads its own pipeline again, after what gathered meanwhile was discarded; the second pipeline ends.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import DEMAND, ORDER, Lever

LEVER = Lever(name="parallel-calls", changes=frozenset({ORDER, DEMAND}))
