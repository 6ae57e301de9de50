"""The training's processes hold more memory with every step.

What it sees:
    What the processes of the training hold, pages of files and shared ones left out, rises from quarter to quarter of the window, in
    medians and in minima, never slower than a third of its mean rate; by at least 64 MiB and a twentieth of what was held, and so fast
    that what is left is used up within a day.
Why it costs:
    When memory is used up the machine swaps or the kernel ends the process. Until then it costs little: it is said before it happens,
    and before everything else where that is within the hour.
How the gain is predicted:
    Not at all: it costs no time that could be measured yet.
When it is wrong:
    A dataset that is kept in memory as it is read grows through the first epoch, and then no more: a window of several epochs shows that.
    What is kept in shared memory (/dev/shm) is not seen. An allocator that has not settled yet looks the same for a minute.
What to try:
    Look for what is kept from step to step: losses appended with their graph (append loss.item()), lists of outputs, metrics that are
    never reset, a cache without a limit. In loader workers: Python lists of many small objects, whose pages are copied as they are read.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.memory import Growth, Limit
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.units import MIB, format_number

NAME = "memory-growth"
# Python, allocators and caches of a healthy training still move by some MiB after its warm-up (examples/case_study: under 10 MiB).
GREW_BYTES = 64 * MIB
GREW_SHARE = 0.05
# What slows down is filling up, not leaking.
STEADY = 1 / 3
SOON_S = 24 * 3600.0
# So soon that it is told before any gain.
URGENT_S = 3600.0


def judge(m: Measurements) -> Answer:
    """Whether memory grows steadily, and when it would be used up."""
    growth, limit = m.machine.memory.growth, m.machine.memory.limit
    if growth is None:
        if m.machine.memory.resident_bytes is None:
            return NotJudged(rule=NAME, reason="the memory of the training's processes was not measured")
        return NotJudged(rule=NAME, reason="the window is too short to tell growth from settling; record for a minute")
    if not _steady(growth):
        return None
    left_s = None if limit is None else limit.left_bytes / growth.per_s
    if left_s is not None and left_s > SOON_S:
        return None
    step_s = float(m.step_ns.mean()) / 1e9
    per_step = growth.per_s * step_s
    where = {True: "most in the training process", False: "most in another process of the training", None: None}[growth.in_trainer]
    evidence = (
        Evidence(name="growth per step", value=per_step / MIB, unit="MiB", where=where),
        Evidence(name="growth per step, slowest quarter", value=growth.low_per_s * step_s / MIB, unit="MiB"),
        Evidence(name="growth per step, fastest quarter", value=growth.high_per_s * step_s / MIB, unit="MiB"),
        Evidence(
            name="grown over the window", value=(growth.last_bytes - growth.first_bytes) / MIB, unit="MiB", threshold=GREW_BYTES / MIB
        ),
        *_until(limit, left_s),
    )
    title = f"memory grows by {format_number(per_step / MIB)} MiB a step, steadily{_when(left_s)}"
    fixes = (
        "look for what is kept from step to step: losses appended without .item() or .detach(), outputs in lists, caches without a limit",
        "if it is a cache that fills in the first epoch, check that it fits: record over two epochs",
    )
    urgent = left_s is not None and left_s < URGENT_S
    return advice(NAME, "compute", title, evidence, "the training goes on as in the window", fixes, urgent=urgent)


def _steady(growth: Growth) -> bool:
    grown = growth.last_bytes - growth.first_bytes
    enough = grown >= max(GREW_BYTES, GREW_SHARE * growth.first_bytes)
    return enough and growth.low_per_s >= STEADY * growth.per_s > 0


def _until(limit: Limit | None, left_s: float | None) -> tuple[Evidence, ...]:
    if limit is None or left_s is None:
        return ()
    return (
        Evidence(name="left to use", value=limit.left_bytes / MIB, unit="MiB", where=f"of {limit.of}"),
        Evidence(name="used up in", value=left_s / 60, unit="minutes", threshold=SOON_S / 60),
    )


def _when(left_s: float | None) -> str:
    if left_s is None:
        return ""
    long = f"{left_s / 3600:.1f} h" if left_s >= 3600 else f"{left_s / 60:.0f} min"
    return f": what is left is used up in {long}"


RULE = Rule(name=NAME, stages=("compute",), judge=judge, advisory=True)
