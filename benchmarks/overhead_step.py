"""How large the batches of the "20 ms" step must be on this machine for the step to take 20 ms."""

from __future__ import annotations

from collections.abc import Callable

STEP_MS = 20.0
# Near enough to stop at once, and near enough for the best of all tries.
CLOSE, CLOSE_ENOUGH = 0.05, 0.15
FIRST_BATCH = 256
MOST_TRIES = 6


class NotCalibrated(Exception):
    """The step does not come near its length whatever its batch."""


def find_batch(step_ms: Callable[[int], float]) -> tuple[int, float]:
    """The batch size with which a bare step takes about `STEP_MS`, and what it took; `step_ms` measures one. Raises `NotCalibrated`."""
    batch, tried = FIRST_BATCH, []
    for _ in range(MOST_TRIES):
        took = step_ms(batch)
        tried.append((abs(took / STEP_MS - 1), batch, took))
        if tried[-1][0] <= CLOSE:
            break
        # A step grows with its batch nearly in proportion.
        batch = max(round(batch * STEP_MS / took), 1)
    off, batch, took = min(tried)
    if off > CLOSE_ENOUGH:
        said = ", ".join(f"{size}: {ms:.1f} ms" for _, size, ms in tried)
        raise NotCalibrated(f"no batch size gives a step of {STEP_MS:.0f} ms ({said}): is the machine busy?")
    return batch, took
