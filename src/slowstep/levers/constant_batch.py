"""One batch again and again: the least that input can cost.

Its data are in the processor's caches.

What it changes:
    While it is on, the training gets the same real batch at every request. The loader's workers fill their queue and rest. Where the
    training reads several loaders, all of them are replaced, each by a batch of its own.
What it answers:
    What the training takes by itself. Next to mock-loader it shows what different data costs: batches of different sizes, and memory that
    is not in the processor's caches.
When it has no meaning:
    As mock-loader. Where batches differ in size one batch stands for none of the others: compare with mock-loader.
How it is undone:
    As mock-loader: what gathered is discarded, the loader's batches are given out again, and the copy is let go.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import ORDER, Lever, OnLongSteps

LEVER = Lever(name="constant-batch", changes=frozenset({ORDER}), long_steps=OnLongSteps.OWN)
