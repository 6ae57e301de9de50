"""Batches in pinned memory: copies to a device are faster.

They may overlap with other work, too.

What it changes:
    A second loader, like the training's own but with pin_memory=True, is started with it; while the lever is on the training gets that
    one's batches. A thread of the training process copies them into pinned memory.
What it answers:
    Whether faster copies outweigh the copying. Copies overlap with other work only where the script asks for it (`non_blocking=True`).
When it has no meaning:
    Without an accelerator, where batches are pinned already, and where the loader cannot be built a second time (see workers).
How it is undone:
    As workers; the thread ends with them.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import DEMAND, ORDER, Lever

LEVER = Lever(name="pin-memory", changes=frozenset({ORDER, DEMAND}))
