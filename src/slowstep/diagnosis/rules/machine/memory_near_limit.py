"""Memory is nearly used up, or the machine is swapping.

What it sees:
    The least that was left of the control group's limit or of the machine's memory is under a tenth of it and under 4 GiB; or pages were
    read back from swap space at 1 MiB/s or more on average.
Why it costs:
    Pages that were swapped out must be read from storage when they are touched, a thousand times slower than memory. When nothing is left
    the kernel ends a process: a loader worker ("killed by signal"), or the training.
How the gain is predicted:
    Not at all: how long threads waited for their pages is charged to whatever they were doing. Where swapping is seen, freeing memory is
    worth a try before anything else.
When it is wrong:
    On a shared machine others may hold the memory: what the training holds is shown with it. File pages that can be dropped are not
    counted as used, but those of files mapped and in use are.
What to try:
    Fewer loader workers or a smaller prefetch_factor, arrays or files mapped into memory in place of Python lists in the dataset, a
    smaller batch; else a larger limit.
"""

from __future__ import annotations

from slowstep.analyses.machine.memory import Limit
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import GIB, MIB

NAME = "memory-near-limit"
# From a tenth on, earlyoom (its default) ends processes lest the machine stands still; on a large machine a tenth is plenty.
NEAR_SHARE = 0.10
NEAR_BYTES = 4 * GIB
# 256 pages a second: at 0.1 ms from a fast disk they take 2.5 % of the time; idle pages that come back now and then are fewer.
SWAP_IN_PER_S = MIB

LEFT_NOT_MEASURED = Wording("left-not-measured", "how much memory is left was not measured")


def judge(m: Measurements) -> Answer:
    """Whether memory is short, by what is left of it or by swapping."""
    memory = m.machine.resources.memory
    if memory.limit is None:
        return NotJudged(rule=NAME, reason=LEFT_NOT_MEASURED())
    swaps = memory.swap_in_per_s is not None and memory.swap_in_per_s >= SWAP_IN_PER_S
    if not (_near(memory.limit) or swaps):
        return None
    limit = memory.limit
    evidence = (
        Evidence(name="least that was left", value=limit.left_bytes / MIB, unit="MiB", threshold=NEAR_BYTES / MIB, where=f"of {limit.of}"),
        Evidence(name="its share of the limit", value=limit.left_share, unit="share of limit", threshold=NEAR_SHARE),
        Evidence(name="held by the training", value=_mib(memory.resident_bytes), unit="MiB", where="shared pages counted in each process"),
        Evidence(name="swapped in", value=_mib(memory.swap_in_per_s), unit="MiB/s", threshold=SWAP_IN_PER_S / MIB),
        Evidence(name="swapped out", value=_mib(memory.swap_out_per_s), unit="MiB/s"),
        Evidence(name="pages of the training read from storage", value=m.machine.resources.major_faults_per_s, unit="per second"),
        Evidence(name="some task waited for memory", value=m.machine.resources.pressure.get("memory"), unit="share of time"),
    )
    title = (
        f"the machine swaps: {(memory.swap_in_per_s or 0) / MIB:.1f} MiB/s are read back from swap space"
        if swaps
        else f"memory is nearly used up: {limit.left_bytes / GIB:.1f} of {limit.limit_bytes / GIB:.1f} GiB of {limit.of} were left"
    )
    fewer_batches = f"fewer loader workers or a smaller {m.training.words.name_of(Remedy.PREFETCH, 'number of batches made ahead')}"
    fixes = (
        f"{fewer_batches}; keep the dataset in arrays or mapped files, not in Python lists",
        "a smaller batch, or a larger limit",
    )
    return advice(NAME, "compute", title, evidence, "there were enough memory", fixes)


def _near(limit: Limit) -> bool:
    return limit.left_share < NEAR_SHARE and limit.left_bytes < NEAR_BYTES


def _mib(value: float | None) -> float | None:
    return None if value is None else value / MIB


RULE = Rule(name=NAME, stages=("compute",), topics=("machine", "training"), judge=judge, advisory=True)
