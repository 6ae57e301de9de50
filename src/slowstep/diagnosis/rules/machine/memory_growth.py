"""The training's processes hold more memory with every step.

What it sees:
    What the processes of the training hold, pages of files and shared ones left out, rises from quarter to quarter of the window, in
    medians and in minima, never slower than a third of its mean rate; by at least 64 MiB and a twentieth of what was held, and so fast
    that what is left is used up within a day. In a window too short for that, the same of the training process alone, where what is left
    would be used up within three minutes; within the hour it is said that it is not judged.
Why it costs:
    When memory is used up the machine swaps or the kernel ends the process. Until then it costs little: it is said before it happens,
    and before everything else where that is within the hour.
How the gain is predicted:
    Not at all: it costs no time that could be measured yet.
When it is wrong:
    A dataset that is kept in memory as it is read grows through the first epoch, and then no more: a window of several epochs shows that.
    What is kept in shared memory (/dev/shm) is not seen. An allocator that has not settled yet looks the same for a minute, and a cache
    that fills at once, in a short window: what is said of one says so.
What to try:
    Look for what is kept from step to step: losses appended with their graph (append loss.item()), lists of outputs, metrics that are
    never reset, a cache without a limit. In loader workers: Python lists of many small objects, whose pages are copied as they are read.
"""

from __future__ import annotations

from slowstep.analyses.machine.memory import QUARTERS, Limit, MemoryGrowth
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import MIB, format_duration, format_number

NAME = "memory-growth"
# Python, allocators and caches of a healthy training still move by some MiB after its warm-up (examples/case_study: under 10 MiB).
GREW_BYTES = 64 * MIB
GREW_SHARE = 0.05
# What slows down is filling up, not leaking.
STEADY = 1 / 3
SOON_S = 24 * 3600.0
# So soon that it is told before any gain.
URGENT_S = 3600.0
# A recording that tells growth from settling takes a minute of steps, beside its start and warm-up (up to another minute): where what is
# left lasts for little longer, it may not live to tell.
OUTLIVED_S = 180.0

MEMORY_NOT_MEASURED = Wording("memory-not-measured", "the memory of the training's processes was not measured")
GROWTH_OR_SETTLING = Wording("growth-or-settling", "the window is too short to tell growth from settling; record for a minute")
GROWS_OR_SETTLES = Wording(
    "grows-or-settles",
    "memory grew by {mib:number} MiB, and at that pace what is left is used up in {left}; the window is too short to tell growth from "
    "settling; record for a minute",
)


def judge(m: Measurements) -> Answer:
    """Whether memory grows steadily, and when it would be used up."""
    growth, limit = m.machine.resources.memory.growth, m.machine.resources.memory.limit
    if growth is None:
        if m.machine.resources.memory.resident_bytes is None:
            return NotJudged(rule=NAME, reason=MEMORY_NOT_MEASURED())
        return _judge_early(m, m.machine.resources.memory.early, limit)
    if not _steady(growth):
        return None
    left_s = None if limit is None else limit.left_bytes / growth.per_s
    if left_s is not None and left_s > SOON_S:
        return None
    return _finding(m, growth, limit, left_s, surely=True)


def _judge_early(m: Measurements, early: MemoryGrowth | None, limit: Limit | None) -> Answer:
    """What a window says that is too short: what grows so fast that it would end a longer recording is told at once."""
    if early is None or limit is None or not _steady(early) or (left_s := limit.left_bytes / early.per_s) >= URGENT_S:
        return NotJudged(rule=NAME, reason=GROWTH_OR_SETTLING())
    if left_s >= OUTLIVED_S or early.readings < QUARTERS:
        reason = GROWS_OR_SETTLES(mib=(early.last_bytes - early.first_bytes) / MIB, left=_long(left_s))
        return NotJudged(rule=NAME, reason=reason, pressing=True)
    return _finding(m, early, limit, left_s, surely=False)


def _finding(m: Measurements, growth: MemoryGrowth, limit: Limit | None, left_s: float | None, *, surely: bool) -> Judged:
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
        *_until(limit, left_s, SOON_S if surely else OUTLIVED_S),
    )
    pace, unless = (", steadily", "") if surely else (" so far", ", unless it settles (the window is too short to tell)")
    title = f"memory grows by {format_number(per_step / MIB)} MiB a step{pace}{_when(left_s)}{unless}"
    fixes = (
        (
            f"look for what is kept from step to step: {m.training.words.advise(Remedy.KEPT_LOSSES)}, outputs collected in lists, caches "
            "without a limit"
        ),
        "if it is a cache that fills in the first epoch, check that it fits: record over two epochs",
    )
    urgent = left_s is not None and left_s < URGENT_S
    return advice(NAME, "compute", title, evidence, "the training goes on as recorded", fixes, urgent=urgent)


def _steady(growth: MemoryGrowth) -> bool:
    grown = growth.last_bytes - growth.first_bytes
    enough = grown >= max(GREW_BYTES, GREW_SHARE * growth.first_bytes)
    return enough and growth.low_per_s >= STEADY * growth.per_s > 0


def _until(limit: Limit | None, left_s: float | None, soon_s: float) -> tuple[Evidence, ...]:
    if limit is None or left_s is None:
        return ()
    return (
        Evidence(name="left to use", value=limit.left_bytes / MIB, unit="MiB", where=f"of {limit.of}"),
        Evidence(name="used up in", value=left_s / 60, unit="minutes", threshold=soon_s / 60),
    )


def _when(left_s: float | None) -> str:
    if left_s is None:
        return ""
    return f": what is left is used up in {_long(left_s)}"


def _long(left_s: float) -> str:
    """Of few minutes a fraction matters, of less than a second none."""
    return f"{left_s / 60:.0f} min" if 600 <= left_s < 3600 else format_duration(max(left_s, 1.0) * 1e9)


RULE = Rule(name=NAME, stages=("compute",), topics=("machine", "steps", "training"), judge=judge, advisory=True)
