"""Data that is not in the page cache, as in a first epoch.

So it is in every epoch with more data than memory.

What it changes:
    A second loader, like the training's own, is started with it. In its workers each file of up to 64 MiB leaves the page cache
    (`posix_fadvise`) as it is opened for reading. While the lever is on the training gets that one's batches.
What it answers:
    What the training would lose if its data had to be read from storage. Its gain is below 1: that of a warm cache, from the other side.
    The bytes that came from storage per batch are counted as it is and with the lever (`own_storage_bytes`, `storage_bytes`).
When it has no meaning:
    Where the data comes from storage as it is, or from no file; where files are larger, stay open, are mapped into memory, opened by
    libraries that Python does not see, or lie on a file system in memory: this is tried, and the kernel's counters decide. Without
    workers: in the training's own process the watch for opened files could never be taken away. Where the loader cannot be built a
    second time (see workers).
How it is undone:
    As workers: what watches ends with them. Files that were dropped were read into the cache again by whoever opened them.
"""

from __future__ import annotations

from slowstep.record.experiment.lever import ORDER, Lever, OnLongSteps

LEVER = Lever(name="cold-cache", changes=frozenset({ORDER}), long_steps=OnLongSteps.OWN)
