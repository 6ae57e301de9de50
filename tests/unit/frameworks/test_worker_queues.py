"""The queues of a loader's worker: what passes through them is the user's, and is not asked."""

from __future__ import annotations

from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.torch.inside._fetches import samples_of
from slowstep.frameworks.torch.inside.worker import DataQueue
from slowstep.record.timing.tracebacks import PACKAGE


class Fields(dict[str, Any]):
    """As many write it: an attribute that it lacks is a KeyError."""

    __getattr__ = dict.__getitem__


class Wrapped:
    """As torch wraps an exception."""

    def __init__(self, text: str) -> None:
        self.exc_msg = text


def test_a_batch_whose_attributes_are_its_items_is_put() -> None:
    queue: SimpleQueue[Any] = SimpleQueue()
    batch = Fields(x=1)

    DataQueue(queue).put((0, batch))

    assert queue.get() == (0, batch)


def test_our_frames_are_left_out_of_a_workers_exception() -> None:
    queue: SimpleQueue[Any] = SimpleQueue()
    text = f'Traceback\n  File "{PACKAGE}fetch.py", line 1, in fetch\n    batch = 1\n  File "/script.py", line 2\n'

    DataQueue(queue).put((0, Wrapped(text)))

    assert queue.get()[1].exc_msg == 'Traceback\n  File "/script.py", line 2\n'


class Unmeasured:
    """Indices of the user's own sampler."""

    def __len__(self) -> int:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("index", "collated", "is_stream", "samples"),
    [
        ([1, 2, 3], -1, False, 3),
        ([1, 2, 3], 2, True, 2),
        ([1, 2, 3], 2, False, 3),
        (Unmeasured(), 2, False, 2),
        (iter([1]), 2, False, 2),
        (Unmeasured(), -1, False, -1),
    ],
)
def test_samples_are_the_indices_else_what_was_collated(index: Any, collated: int, is_stream: bool, samples: int) -> None:
    fetcher = SimpleNamespace(auto_collation=True, **({"dataset_iter": iter([])} if is_stream else {}))

    assert samples_of(fetcher, index, collated) == samples
