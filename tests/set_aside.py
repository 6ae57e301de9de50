"""Objects that a script has set aside by `gc.freeze()`, as it does before it forks workers."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def all_set_aside() -> Iterator[None]:
    """Python's collector tells of none of the objects that there are by now."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
