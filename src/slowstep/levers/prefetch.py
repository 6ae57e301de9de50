"""Another number of batches that are made ahead.

By each worker, or by a pipeline of tf.data.

What it changes:
    A second loader, like the training's own but for its prefetch_factor, is started with it; while the lever is on the training gets that
    one's batches. Of a pipeline of tf.data below Keras' fit it is a second one, that ends in prefetch(N).
What it answers:
    Whether batches that take longer than usual now and then are better hidden. It cannot help where workers are too slow on average.
When it has no meaning:
    Without workers, where the factor is that already, and where the loader cannot be built a second time (see workers). Of tf.data where
    the pipeline ends in a prefetch already, and as of parallel-calls.
How it is undone:
    As workers.
"""

from __future__ import annotations

from slowstep.levers._count import count_of
from slowstep.record.experiment.lever import ORDER, Lever, LeverSpec


def read_prefetch(spec: LeverSpec) -> int:
    """The N. Raises ValueError where it is none, or under 1."""
    return count_of(spec, least=1)


LEVER = Lever(name="prefetch", takes="N", changes=frozenset({ORDER}), read=read_prefetch)
