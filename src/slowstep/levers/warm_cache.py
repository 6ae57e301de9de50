"""Data that is in the page cache already, as with enough memory.

Very fast storage would do as much.

What it changes:
    A second loader, like the training's own, is started with it. It asks its data set for the same few batches of samples again and
    again, so that, after the first time, their files are in the page cache. While the lever is on the training gets that one's batches.
What it answers:
    What reading from storage costs: decoding, transforms and collating are done as ever. The bytes that came from storage per batch are
    counted as it is and with the lever (`own_storage_bytes`, `storage_bytes`).
When it has no meaning:
    Where nothing is read from storage as it is (the files are cached already), where the data set is a stream (the same samples cannot be
    asked for again), where the system does not count reads, and where the loader cannot be built a second time (see workers). A data
    set that keeps samples in its own memory is served from there, and the gain is that of both.
How it is undone:
    As workers. The files stay in the page cache.
"""

from __future__ import annotations

from typing import Final

from slowstep.record.experiment.lever import ORDER, Lever, OnLongSteps

# Less per batch than one block of a usual file system is no reading of files: 120 to 410 bytes were measured where none was read, which
# is what workers and training say to each other.
LEAST_BYTES: Final = 4096

LEVER = Lever(name="warm-cache", changes=frozenset({ORDER}), long_steps=OnLongSteps.OWN)
