"""A job of several ranks by hand: in step with each other, each with as much work of its own as the test says, the others waiting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from made_events import Events

STEPS = 60


def make_job(
    folder: Path,
    own_ms: Sequence[float],
    *,
    delay_ms: Sequence[float] = (),
    share_ms: float = 1.0,
    steps: int | Sequence[int] = STEPS,
    size: int | None = None,
) -> Path:
    """One rank per entry of `own_ms`: work in the backward, then waiting for the slowest, then `share_ms` for the exchange itself.

    `delay_ms` of it each rank waits for a core. `steps` are those of all ranks, or of each. `size` is the size of the job, more than
    `own_ms` where ranks left no recording.
    """
    ranks = [Events(folder, pid=100 + i, rank=(i, size or len(own_ms))) for i in range(len(own_ms))]
    delays = delay_ms or [0.0] * len(own_ms)
    length = max(own_ms) + share_ms + 2
    counts = [steps] * len(own_ms) if isinstance(steps, int) else steps
    for rank, own, delay, count in zip(ranks, own_ms, delays, counts, strict=True):
        rank.loader()
        for k in range(count):
            begin, end = k * length, (k + 1) * length
            rank.wait(begin, begin + 0.5, k)
            rank.mark(begin + 0.5, 0, delay * k)
            rank.backward(begin + 1, end - 1)
            rank.backward_cpu(begin + 1, end - 1, cpu=own - delay, delay=delay)
            rank.update(end - 1, end)
            rank.mark(end, 0, delay * (k + 1))
        rank.close()
    return folder
