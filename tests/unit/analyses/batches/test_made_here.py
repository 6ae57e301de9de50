"""Who makes the batches of an input that the script names with `slowstep.steps`."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.batches.made_here import made_here
from slowstep.analyses.python.functions import Stacks
from slowstep.record.writing.format import FIRST_OF_STEPS
from slowstep.timeline.timeline import Frame

MS = 1_000_000
COUNT = 40
OWN = Frame(file="train.py", function="batches", first_line=10, line=12)
QUEUE = Frame(file="/usr/lib/python3.12/threading.py", function="wait", first_line=300, line=355)


def fetches(*, cpu: float = 0.0, delay: float | None = 0.0, other: float = 0.0, iterator: int | None = FIRST_OF_STEPS + 1) -> pl.DataFrame:
    """Requests of 10 ms each, 20 ms apart."""
    start = pl.Series([20 * MS * k for k in range(COUNT)], dtype=pl.Int64)
    times = {"cpu_ns": cpu, "delay_ns": delay, "other_cpu_ns": other}
    ns = {name: pl.Series([None if each is None else int(each * MS)] * COUNT, dtype=pl.Int64) for name, each in times.items()}
    asked = pl.Series([iterator] * COUNT, dtype=pl.Int64)
    return pl.DataFrame({"start_ns": start, "end_ns": start + 10 * MS, "iterator": asked, **ns})


def stacks(*paths: tuple[Frame, ...]) -> Stacks:
    """One within each request, of these in turn; none where none is given."""
    count = COUNT if paths else 0
    return Stacks(
        time_ns=np.array([(20 * k + 5) * MS for k in range(count)], dtype=np.int64),
        weight_ns=np.full(count, 10.0 * MS),
        stack=np.arange(count) % max(len(paths), 1),
        frames=dict(enumerate(paths)),
        blocked=np.zeros(count, dtype=np.bool_),
        device_idle=np.full(count, -1, dtype=np.int8),
    )


@pytest.mark.parametrize(
    ("asked", "taken", "is_made_here"),
    [
        (fetches(cpu=9), stacks(), True),
        (fetches(cpu=2, delay=7), stacks(), True),
        (fetches(), stacks((OWN,)), True),
        (fetches(), stacks((OWN,), (OWN,), (OWN, QUEUE)), True),
        (fetches(), stacks((OWN, QUEUE), (OWN, QUEUE), (OWN,)), False),
        (fetches(), stacks(), False),
        (fetches(delay=None), stacks(), False),
        (fetches(other=9), stacks((OWN,)), False),
        (fetches(iterator=3), stacks((OWN, QUEUE)), True),
        (fetches(iterator=None), stacks((OWN, QUEUE)), True),
    ],
    ids=[
        "computes", "queues for a core", "sleeps or reads", "seldom waits for a thread", "waits for a thread", "blocked, and no stacks",
        "blocked for all that is known", "other threads compute", "a loader's own", "of an older recording",
    ],
)  # fmt: skip
def test_batches_are_the_training_threads_own_where_it_makes_them(asked, taken, is_made_here):
    assert made_here(asked, taken).height == (COUNT if is_made_here else 0)


def test_what_others_make_takes_no_loaders_batches_with_it():
    both = pl.concat([fetches(), fetches(iterator=3)])

    assert made_here(both, stacks())["iterator"].unique().to_list() == [3]
