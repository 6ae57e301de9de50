from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

from slowstep.frameworks.torch.inside.levers._input import feed


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No test of a lever leaves a worker, or the replacement of torch's functions."""
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) - before == set()
    left = dict(feed._feeds)
    # One test's fault is not that of all after it.
    feed._feeds.clear()
    assert left == {}
