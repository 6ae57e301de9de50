from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.batches.fetch_concurrency import FetchConcurrency, find_fetch_concurrency

MS = 1_000_000
WORK_MS = 100.0


def _fetches(*, epoch: int, workers: int = 2, epochs: int = 12, shared: bool, noise: float = 0.05, cpu_share: float = 0.1) -> pl.DataFrame:
    """Fetches of a loader whose workers receive from a line that they share, or each at its own pace: simulated by small pieces of time.

    A batch holds `WORK_MS` of receiving at the pace of `workers` at once.
    """
    random = np.random.default_rng(1)
    rows, now, piece = [], 0.0, 0.5
    for _ in range(epochs):
        left, running = epoch, dict[int, list[float]]()
        while left or running:
            for worker in range(workers):
                if worker not in running and left:
                    left -= 1
                    running[worker] = [now, WORK_MS * random.uniform(1 - noise, 1 + noise)]
            speed = workers / len(running) if shared else 1.0
            now += piece
            for worker in list(running):
                running[worker][1] -= piece * speed
                if running[worker][1] <= 0:
                    rows.append((worker, int(running.pop(worker)[0] * MS), int(now * MS)))
        now += 20
    table = pl.DataFrame(rows, schema=["process", "start_ns", "end_ns"], orient="row")
    return table.with_columns(
        samples=pl.lit(4),
        cpu_ns=((pl.col("end_ns") - pl.col("start_ns")) * cpu_share).cast(pl.Int64),
        delay_ns=pl.lit(0),
        other_cpu_ns=pl.lit(0),
        profiled=pl.lit(False),
    )


def _found(fetches: pl.DataFrame) -> FetchConcurrency:
    found = find_fetch_concurrency(fetches)
    assert found is not None
    return found


@pytest.mark.parametrize(("workers", "epoch"), [(2, 21), (4, 42), (3, 20)])
def test_batches_that_share_a_limit_are_told_from_those_that_do_not(workers, epoch):
    shared, apart = (_found(_fetches(workers=workers, epoch=epoch, shared=shared)) for shared in (True, False))

    assert shared.slows == pytest.approx(1, abs=0.15)
    assert apart.slows == pytest.approx(0, abs=0.15)
    assert apart.low < apart.slows < apart.high < 0.5 < shared.low < shared.slows < shared.high


def test_where_as_many_are_always_made_at_once_nothing_is_known():
    # All workers begin and end together.
    assert find_fetch_concurrency(_fetches(epoch=20, shared=True, noise=0.0)) is None


@pytest.mark.parametrize(("rows", "known"), [(0, False), (1, False), (2, False)])
def test_few_fetches_tell_nothing(rows, known):
    assert (find_fetch_concurrency(_fetches(epoch=21, shared=True).head(rows)) is not None) == known


def test_batches_that_are_computed_tell_nothing_of_what_they_wait_for():
    assert find_fetch_concurrency(_fetches(epoch=21, shared=True, cpu_share=0.9)) is None


def test_a_workers_first_batch_is_left_out():
    fetches = _fetches(epoch=21, shared=True)
    anew = fetches.with_columns(process=pl.int_range(pl.len()))

    assert find_fetch_concurrency(anew) is None


def test_timed_batches_and_those_of_unknown_size_are_left_out():
    fetches = _fetches(epoch=21, shared=True)

    assert find_fetch_concurrency(fetches.with_columns(profiled=pl.lit(True))) is None
    assert find_fetch_concurrency(fetches.with_columns(samples=pl.lit(None, dtype=pl.Int64))) is None
