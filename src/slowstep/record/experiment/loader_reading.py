"""What one reading of a loader, as fast as it gives, says: what the task `bench_data` notes of it, whichever framework's it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from slowstep.record.experiment.account import Slice

UNKNOWN: Final = -1
# As many calls at once as the framework chooses.
AUTOTUNE: Final = -1
# Batches are added up to rows of so many ns at least: a fast loader gives fifty thousand in a second.
ROW_NS: Final = 2_000_000
# So many batches are counted though the time is over, in at most so many times the time.
LEAST_BATCHES: Final = 12
OVERTIME: Final = 3.0


@dataclass(slots=True)
class Edges:
    """Where an epoch began, and where it ended if it was seen to.

    `start_ns` is from the start of its iterator to its first batch, `fill_ns` to the last of the `filled` batches that are in no row, of so
    many `samples`, `seen` as the recorder counts them, and bytes. `end_ns` is from the last batch to the end, with the end of workers.
    `batches` are all of the epoch. UNKNOWN: it was not seen to end.
    """

    start_ns: int = 0
    fill_ns: int = 0
    end_ns: int = UNKNOWN
    filled: int = 0
    samples: int = 0
    seen: int = 0
    size_bytes: int = 0
    batches: int = UNKNOWN

    def add(self, ns: int, samples: int, seen: int, size_bytes: int) -> None:
        """One more batch that is not counted, so long after the one before, or after the start."""
        if self.filled:
            self.fill_ns += ns
        else:
            self.start_ns = ns
        self.filled += 1
        self.samples = sum_known(self.samples, samples)
        self.seen = sum_known(self.seen, seen)
        self.size_bytes = sum_known(self.size_bytes, size_bytes)


@dataclass(slots=True)
class Drained:
    """What was read. `rows` are [ns, batches, samples, bytes] without a gap in an epoch, of batches behind those of `edges`; -1 is unknown.

    `edges` are those of the epochs that began as the training's do: where workers are persistent the first one does not. `epoch_batches` is
    how long the loader says an epoch is, None where it does not. `seen` are the samples of the rows as the recorder counts them. While
    slices were taken, `ready_ns` went by in receiving the `ready` batches that lay ready. `starts_ns`: what each start of an iterator took
    until its first batch. `slices`: see account.Account. `reason`: why it ended early.
    """

    workers: int
    rows: list[list[int]] = field(default_factory=list)
    edges: list[Edges] = field(default_factory=list)
    epoch_batches: int | None = None
    skipped: int = 0
    seen: int = 0
    ready: int = 0
    ready_ns: int = 0
    starts_ns: list[int] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    reason: str | None = None


def sum_known(one: int, other: int) -> int:
    """Their sum; UNKNOWN where one of them is."""
    return UNKNOWN if UNKNOWN in (one, other) else one + other


def said(error: BaseException) -> str:
    """An exception in one line; of one that a worker raised, what it raised."""
    lines = str(error).strip().splitlines()
    last = lines[-1] if lines and lines[0].startswith("Caught ") else f"{type(error).__name__}: {lines[0] if lines else ''}"
    return last[:200]
