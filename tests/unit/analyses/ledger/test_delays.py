"""What a thread was blocked in its making of input, where its calls return before their work is done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from made_parts import function_part
from slowstep.analyses.ledger.delays import blocked_in_making, with_blocked
from slowstep.parts import Part, PartKind
from slowstep.timeline.schema import TABLE

MS = 1e6
STEPS = 4
LOAD = function_part("preprocess", "load", "train.py", 1)
CALLS = Part("compute", PartKind.FORWARD_AND_REST)


def blocked(*, used_ms: float, delay_ms: float = 0.0, rows: dict[Part, float], is_fed: bool = False, marks: int = STEPS + 1) -> float:
    """Of steps of 50 ms, with a mark at the end of each update: ms of CPU time and of waiting for a core, and of each part, in each."""
    ends = np.arange(1, STEPS + 2) * int(50 * MS)
    clock = [int(used_ms * MS * mark) for mark in range(marks)]
    waited = [int(delay_ms * MS * mark) for mark in range(marks)]
    columns = {"process": 0, "thread": 7, "time_ns": ends[:marks], "cpu_ns": clock, "delay_ns": waited}
    timeline: Any = SimpleNamespace(table={"cpu_marks": pl.DataFrame(columns, schema=TABLE["cpu_marks"].schema)}.__getitem__)
    trainer: Any = SimpleNamespace(process=0, thread=7, is_fed=is_fed, all_updates=pl.DataFrame({"end_ns": ends}))
    edges = np.append(0, ends)
    at = lambda ns: (np.searchsorted(edges, ns, side="left") - 1, np.ones(len(ns), dtype=bool))  # noqa: E731
    steps: Any = SimpleNamespace(stretches=STEPS + 1, stretch_at=at, excluded=np.zeros(STEPS + 1, dtype=bool), edges_ns=edges)
    return blocked_in_making(timeline, trainer, steps, {part: np.full(STEPS, ms * MS) for part, ms in rows.items()})


@pytest.mark.parametrize(
    ("given", "share"),
    [
        ({"used_ms": 2, "rows": {LOAD: 48}}, 1.0),
        ({"used_ms": 50, "rows": {LOAD: 48}}, 0.0),
        # Half of the time it waited, of which a fourth may have been in its calls.
        ({"used_ms": 25, "rows": {LOAD: 37.5, CALLS: 12.5}}, 1 / 3),
        ({"used_ms": 10, "delay_ms": 10, "rows": {LOAD: 40, Part("preprocess", PartKind.CORE_WAIT): 10}}, 3 / 4),
        ({"used_ms": 2, "rows": {LOAD: 48}, "is_fed": True}, 0.0),
        ({"used_ms": 2, "rows": {CALLS: 48}}, 0.0),
        ({"used_ms": 2, "rows": {LOAD: 48}, "marks": 1}, 0.0),
    ],
    ids=["all", "computes", "in its calls first", "not for a core", "a loader's", "makes nothing", "no marks"],
)
def test_what_a_thread_neither_computed_nor_may_have_waited_in_its_calls_it_was_blocked(given: dict[str, Any], share: float) -> None:
    assert blocked(**given) == pytest.approx(share)


def test_that_share_of_the_making_of_input_is_read() -> None:
    rows = with_blocked({LOAD: np.array([40.0, 20.0]), CALLS: np.array([10.0, 10.0])}, 0.75)

    assert {part: ns.tolist() for part, ns in rows.items()} == {
        LOAD: [10.0, 5.0],
        CALLS: [10.0, 10.0],
        Part("read", PartKind.BLOCKED): [30.0, 15.0],
    }
