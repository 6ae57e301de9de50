"""What is known of a loader's iterator while its requests are recorded."""

from __future__ import annotations

from typing import Any

from slowstep.record.loaders import even_batches


class Iterator:
    """What is known of one iterator, kept on the iterator itself, which can be neither copied nor pickled.

    `batches` were asked for so far; those that are held back (threads.Held) are counted when they are written. All of them hold `samples`
    samples, but for the one with the index `last`, which holds `left`; -1 where that is not known.
    """

    __slots__ = ("batches", "has_workers", "in_order", "last", "left", "number", "samples")

    def __init__(self, number: int, state: dict[str, Any]) -> None:
        self.number = number
        # Of an iterator that is met on its way, some batches have been asked for already.
        self.batches = int(state.get("_num_yielded") or 0)
        self.has_workers = state.get("_worker_result_queue") is not None
        self.in_order = bool(state.get("_in_order", True))
        self.samples, self.last, self.left = even_batches(state)
