from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.python.timed_bodies import Lengthened, find_lengthened
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

MS = 1_000_000
STEPS = 60
TIMED = (12, 15, 20)


def without_loader(received: np.ndarray, backward: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The same bodies, with no request for input and two forwards each: at their begin, and 4 ms later."""
    start = np.sort(np.concatenate((received, received + 4 * MS)))
    forwards = pl.DataFrame(
        {"kind": "forward", "start_ns": start, "end_ns": start + MS, "gradients": True, "module": 1, "evaluating": False}
    )
    return {"waits": pl.DataFrame(schema={"end_ns": pl.Int64}), "spans": pl.concat([backward, forwards], how="diagonal_relaxed")}


def lengthened(
    rest_ms: np.ndarray, backward_ms: np.ndarray, timed: tuple[int, ...] = TIMED, *, loader: bool = True, **changed: Any
) -> Lengthened | None:
    """Steps of 1 ms for the input, then forward and the rest, backward, and an update of 2 ms; timing begins 0.1 ms after the receipt."""
    length = 1.0 + rest_ms + backward_ms + 2.0
    received = ((np.append(0.0, np.cumsum(length)[:-1]) + 1.0) * MS).astype(np.int64)
    backward = received + (rest_ms * MS).astype(np.int64)
    update = backward + (backward_ms * MS).astype(np.int64)
    facts: dict[str, Any] = {
        "process": 0,
        "is_fed": loader,
        "waits": pl.DataFrame({"end_ns": received}),
        "update_start_ns": update,
        "update_end_ns": update + 2 * MS,
        "spans": pl.DataFrame({"kind": "backward", "start_ns": backward, "end_ns": update, "gradients": None}),
    }
    if not loader:
        facts |= without_loader(received, facts["spans"])
    stretches = pl.DataFrame({"process": 0, "kind": "body", "start_ns": received[list(timed)] + MS // 10})
    timeline = SimpleNamespace(table=lambda name: {"timed_stretches": stretches}[name])
    told = {**facts, **changed}
    trainer = SimpleNamespace(**told, backwards=told["spans"].filter(pl.col("kind") == "backward"))
    return find_lengthened(cast(Timeline, timeline), cast(Trainer, trainer))


def steps(rest: float, timed: float) -> np.ndarray:
    found = np.full(STEPS, rest)
    found[list(TIMED)] = timed
    return found


def test_what_timing_added_is_told_by_the_other_bodies():
    found = lengthened(steps(10.0, 16.0), np.full(STEPS, 10.0))

    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((1.6, 1.6, 1.6))


def test_a_machine_that_was_slower_in_the_timed_bodies_adds_nothing():
    found = lengthened(steps(10.0, 32.0), steps(10.0, 20.0))

    assert found is not None
    assert found.value == pytest.approx(1.6)


def test_bodies_that_differ_among_themselves_say_less():
    noise = np.exp(np.random.default_rng(0).normal(0, 0.2, STEPS))

    found = lengthened(steps(10.0, 16.0) * noise, np.full(STEPS, 10.0))

    assert found is not None
    assert found.low < 1.5
    assert found.high > 1.7


def test_timing_makes_nothing_shorter():
    found = lengthened(steps(10.0, 5.0), np.full(STEPS, 10.0))

    assert found is not None
    assert (found.low, found.value, found.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("timed", "changed"),
    [
        ((12,), {}),
        (TIMED, {"spans": pl.DataFrame(schema={"kind": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})}),
        (TIMED, {"waits": pl.DataFrame(schema={"end_ns": pl.Int64})}),
    ],
    ids=["one timed", "no backward", "no receipts"],
)  # fmt: skip
def test_too_little_says_nothing(timed, changed):
    assert lengthened(np.full(STEPS, 10.0), np.full(STEPS, 10.0), timed, **changed) is None


def test_without_a_loader_a_body_begins_with_its_first_forward():
    found = lengthened(steps(10.0, 16.0), np.full(STEPS, 10.0), loader=False)

    assert found is not None
    # Those of 10 ms would be 6 ms long, and twice as long where they were timed, if they began with the second one.
    assert found.value == pytest.approx(1.6)
