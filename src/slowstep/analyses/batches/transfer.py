"""The transfer of a batch to the trainer (IPC), where the worker that made it makes the next one meanwhile.

A batch is handed over by threads of its worker: one puts it into the queue, another gives out its shared memory when it is asked. Both
need the GIL, which the worker's own thread has while it computes in Python. A wait for that is a wait for making batches: it
would go with what the worker computes, and a worker that is always busy makes no batch sooner for handing over at once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.producers import ACCOUNT, COLUMN_OF, Fetches, WaitParts, busy_between
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import loading
from slowstep.parts import PartKind
from slowstep.timeline.timeline import Timeline

# Receiving a batch from a worker that had it ready (docs/definitions.md).
RECEIVE_NS = loading.RECEIVING.value
# What receiving takes per tensor, and per byte for pages that are mapped and given back.
TENSOR_NS, BYTE_NS = loading.RECEIVING_TENSOR.value, loading.RECEIVING_BYTE.value
# A worker that computes for less than this share of a wait did nothing that held it up.
IDLE_SHARE = 0.10
# Fewer waits than this tell no usual time: the median of 10 lies between the second and the ninth with 98 %.
FEWEST_WAITS = 10


def with_held_transfers(timeline: Timeline, trainer: int, fetches: Fetches, waits: WaitParts) -> WaitParts:
    """The waits, with what of their transport was a wait for a busy worker charged to making, by its mean account."""
    in_worker = waits.matched & (fetches.process[waits.fetch] != trainer) if len(fetches.process) else np.zeros(0, dtype=bool)
    if not in_worker.any():
        return waits
    column = COLUMN_OF[PartKind.TRANSPORT]
    transport = waits.parts[:, column]
    from_ns = np.maximum(waits.start_ns, fetches.end_ns[waits.fetch])
    busy = busy_between(fetches, waits.fetch, from_ns, waits.end_ns) * _computing(fetches)[waits.fetch]
    usual = _usual_ns(timeline, fetches, transport, in_worker & (busy < IDLE_SHARE * (waits.end_ns - from_ns)))
    if usual is None:
        return waits
    held = np.where(in_worker, np.clip(transport - usual, 0.0, busy), 0.0)
    account = fetches.account.sum(axis=0)
    parts = waits.parts.copy()
    parts[:, column] = transport - held
    parts[:, : len(ACCOUNT)] += held[:, None] * (account / max(float(account.sum()), 1.0))[None, :]
    return replace(waits, parts=parts, held_ns=float(held.sum()))


def _computing(fetches: Fetches) -> Floats:
    """Of each fetch's producer, the share of its making in which it computes: blocked or queueing it has not got the lock."""
    cpu, wall = (np.bincount(fetches.process, weights=ns) for ns in (fetches.cpu_ns, fetches.wall_ns))
    return np.minimum(cpu / np.maximum(wall, 1.0), 1.0)[fetches.process]


def _usual_ns(timeline: Timeline, fetches: Fetches, transport: Floats, idle: NDArray[np.bool_]) -> float | None:
    """What receiving takes from workers that do nothing else meanwhile, or should take by what the batches are made of; None: unknown."""
    if idle.sum() >= FEWEST_WAITS:
        return max(float(np.median(transport[idle])), RECEIVE_NS)
    # Batches of a kind that is not looked into have no tensors.
    forms = timeline.table("batch_forms").filter(pl.col("process").is_in(np.unique(fetches.process).tolist()), pl.col("tensors") > 0)
    if forms.is_empty():
        return None
    return max(TENSOR_NS * float(forms["tensors"].mean()) + BYTE_NS * float(forms["bytes"].mean()), RECEIVE_NS)  # type: ignore[arg-type]
