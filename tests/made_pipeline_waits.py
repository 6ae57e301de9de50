"""Builds trainings that wait for a pipeline which their framework runs, for tests of rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from made_measurements import measurements, per_step
from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.parts import UPDATES, Part, PartKind
from slowstep.timeline.spine import Counted

WAIT = Part("preprocess", PartKind.INPUT_WAIT)


def trained(
    wait_ms: float,
    *,
    work_ms: float = 10.0,
    used: float | None = 1.0,
    others: float = 0.0,
    counted: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Steps whose calls wait for so long, and compute; `used` cores are busy, of four, and others use some."""
    work = CountedWork(
        waits=(Counted(start_ns=0, end_ns=1, count=1, total_ns=int(wait_ms * 1e6)),),
        waited_ns=np.asarray(per_step(wait_ms)),
        busy_ns=None,
        batches=1.0,
        num_workers=None,
        dataset="tf.data",
        is_asynchronous=False,
    )
    nothing = dict.fromkeys(measurements().ledger.parts, 0.0)
    return measurements(
        workers=None,
        ledger=nothing | {WAIT: wait_ms, UPDATES: work_ms} | more.pop("ledger", {}),
        counted=replace(work, **counted or {}),
        load={"tree_cores": used, "foreign_cores": others},
        **more,
    )


def looping(waits: dict[Part, float], **more: Any) -> Any:
    """Steps of an eager loop, which asks for its batches itself and waits so long in them (ms, by part)."""
    return measurements(workers=0, making_ms=sum(waits.values()), ledger=waits, **more)
