"""Loops over items whose lines do several operations: what each takes, and what is left of the loop as whole tensors.

Each loop is written twice, item by item and for all items at once, and timed in turns; one core, no options. `slowstep.calibration` holds
what the last two columns show.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from slowstep.record.timing.line_counts import operations_by_line

ROUNDS = 15
A, B = torch.rand(64, 4), torch.rand(24, 4)
X, W = torch.rand(32, 3, 24, 24), torch.rand(32, 64)
Q, K = torch.rand(48, 64, 32), torch.rand(48, 64, 32)
BIG_Q, BIG_K = torch.rand(32, 160, 160), torch.rand(32, 160, 160)
LOGITS, LABELS = torch.rand(256, 12), torch.randint(0, 12, (256,))
TABLE, BAGS = torch.rand(500, 48), torch.randint(0, 500, (64, 10))
SYMMETRIC = torch.rand(32, 24, 24)


def overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    low = torch.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    high = torch.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    inner = (high - low).clamp_min(0).prod(-1)
    return inner / (a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inner + 1e-6)


def boxes() -> None:
    best = torch.zeros(64)
    for j in range(24):
        found = overlap(A, B[j].expand_as(A))
        best = torch.where(found > best, found, best)


def boxes_at_once() -> None:
    overlap(A[:, None], B[None]).max(1)


def distances() -> None:
    found = torch.zeros(64, 24)
    for j in range(24):
        found[:, j] = ((A - B[j]) ** 2).sum(-1).sqrt()


def distances_at_once() -> None:
    ((A[:, None] - B[None]) ** 2).sum(-1).sqrt()


def pictures() -> None:
    made = torch.empty_like(X)
    for i in range(32):
        made[i] = (X[i] - X[i].mean()) / (X[i].std() + 1e-5) * 0.5 + 0.5


def pictures_at_once() -> None:
    mean, spread = X.mean((1, 2, 3), keepdim=True), X.std((1, 2, 3), keepdim=True)
    (X - mean) / (spread + 1e-5) * 0.5 + 0.5


def heads() -> None:
    made = []
    for h in range(48):
        made.append(F.softmax(Q[h] @ K[h].T / 5.7, -1))  # noqa: PERF401
    torch.stack(made)


def heads_at_once() -> None:
    F.softmax(Q @ K.transpose(1, 2) / 5.7, -1)


def large_heads() -> None:
    made = []
    for h in range(32):
        made.append(F.softmax(BIG_Q[h] @ BIG_K[h].T / 5.7, -1))  # noqa: PERF401
    torch.stack(made)


def large_heads_at_once() -> None:
    F.softmax(BIG_Q @ BIG_K.transpose(1, 2) / 5.7, -1)


def classes() -> None:
    total = torch.zeros(())
    for i in range(256):
        total = total - LOGITS[i].log_softmax(-1)[LABELS[i]] / 256


def classes_at_once() -> None:
    F.cross_entropy(LOGITS, LABELS)


def bags() -> None:
    made = torch.empty(64, 48)
    for i in range(64):
        made[i] = TABLE[BAGS[i]].sum(0) / 10


def bags_at_once() -> None:
    TABLE[BAGS].sum(1) / 10


def values() -> None:
    total = torch.zeros(())
    for i in range(32):
        total = total + torch.linalg.eigvalsh(SYMMETRIC[i] + SYMMETRIC[i].T)[-1] / 32


def values_at_once() -> None:
    torch.linalg.eigvalsh(SYMMETRIC + SYMMETRIC.transpose(1, 2))[:, -1].sum() / 32


def rows() -> None:
    made = torch.empty_like(W)
    for i in range(32):
        made[i] = W[i] / W[i].norm().clamp_min(1e-6) * (W[i] > 0.1)


def rows_at_once() -> None:
    W / W.norm(dim=1, keepdim=True).clamp_min(1e-6) * (W > 0.1)


LOOPS: dict[Callable[[], None], Callable[[], None]] = {
    boxes: boxes_at_once,
    distances: distances_at_once,
    pictures: pictures_at_once,
    heads: heads_at_once,
    large_heads: large_heads_at_once,
    classes: classes_at_once,
    bags: bags_at_once,
    values: values_at_once,
    rows: rows_at_once,
}


def median_ns(function: Callable[[], None]) -> float:
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter_ns()
        function()
        times.append(time.perf_counter_ns() - begun)
    return statistics.median(times)


def operations(function: Callable[[], None]) -> int:
    """What its lines may do, counted as a recording counts them: with the functions of this file that it calls."""
    done = 0
    known = {function.__code__: operations_by_line(function.__code__), overlap.__code__: operations_by_line(overlap.__code__)}

    def local(frame, event, _):  # type: ignore[no-untyped-def]
        nonlocal done
        if event == "line":
            done += max(known[frame.f_code][frame.f_lineno], 1)
        return local

    sys.settrace(lambda frame, event, argument: local if frame.f_code in known else None)
    function()
    sys.settrace(None)
    return done


def main() -> None:
    torch.set_num_threads(1)
    print("| loop | ms | operations | us an operation | at once: left |\n| --- | --- | --- | --- | --- |")
    for loop, at_once in LOOPS.items():
        pairs = [(median_ns(loop), median_ns(at_once)) for _ in range(5)]
        loop_ns, once_ns = (statistics.median(each) for each in zip(*pairs, strict=True))
        done = operations(loop)
        print(f"| {loop.__name__} | {loop_ns / 1e6:.2f} | {done} | {loop_ns / done / 1e3:.1f} | {once_ns / loop_ns:.2f} |")


if __name__ == "__main__":
    main()
