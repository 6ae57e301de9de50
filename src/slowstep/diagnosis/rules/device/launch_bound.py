"""The device waits for the host to launch its kernels.

What it sees:
    Inside steps, gaps of the device in which the launching thread did nothing that the trace names but go on to the next launch: at least
    5 % of the window. XProf draws lines at 3 and 15 %, gpuprof at 10 %; a profiler makes each launch up to 1.7 times as long,
    so 5 % in a trace is what 3 % is without one.
Why it costs:
    Launching a kernel takes the host 5 to 10 us, the framework's operator around it 10 to 50 us, and 20 to 40 us may pass until
    it begins. Kernels that take less than that leave the device idle in between.
How the gain is predicted:
    The steps are replayed with all kernels of a step launched at once, as a CUDA graph does, and without what recording takes of the
    host's time (of PyTorch's profiler; its cost is known within a factor of two). Where most of the gaps are spans of
    1 ms and more, the host does work of its own there that no graph takes away: then the gain is unknown.
When it is wrong:
    Launches are slower under a profiler, with stacks and shapes most of all: the share is with it. A graph needs the same
    shapes in every step and no read-back inside. Where the launches come late because read-backs keep the host from running ahead,
    readback-every-step says so, and leads. A small model on a large device stays bound by launches whatever is done.
What to try:
    CUDA graphs, a compiled step, a larger batch, optimizers that update all parameters in one kernel (fused=True).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import polars as pl

from slowstep.analyses.events.parts import LAUNCH
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import LAUNCHES_FREE
from slowstep.diagnosis.evidence.device.launch_gaps import launch_gaps, readbacks_a_step
from slowstep.diagnosis.evidence.profiled.host_calls import host_work
from slowstep.diagnosis.evidence.profiled.marked_steps import HOST_SHARE, by_step, claim_of, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import has_stacks, needs_device, no_launches, to_mark_steps
from slowstep.diagnosis.gain import predict, saved_by, unknown_gain
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, Gain, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PieceKind
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "launch-bound"
# The time until a launched kernel begins, at most (seed 002): a kernel that is shorter may end before the next one is there.
LAUNCH_US = 40.0
# A hundred launches' time at 10 us each: a stretch without any launch that lasts as long is not made of launching.
LONG_NS = 1_000_000
# Where such stretches hold most of the gaps, the host's own work is the problem, and not its launches.
OWN_WORK = 0.5

ASSUMED = "all kernels of a step were launched at once"
HOST_WORK_STAYS = Wording("host-work-stays", "most of the gaps are host work of 1 ms and more, which a graph does not take away")


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether launching keeps the device waiting."""
    gaps = launch_gaps(m)
    ns = by_step(m, gaps["step"], gaps["ns"])
    share, low, high = share_of_steps(m, ns)
    if share < HOST_SHARE:
        missing = no_launches(m, HOST_SHARE)
        return NotJudged(rule=NAME, reason=missing) if missing is not None else None
    long = gaps.filter(pl.col("ns") >= LONG_NS)
    long_share = float(long["ns"].sum()) / max(float(gaps["ns"].sum()), 1.0)
    worst = _worst(long if long_share >= OWN_WORK else gaps)
    counterfactual = Replayed(LAUNCHES_FREE, assumes=ASSUMED)
    is_replayed = long_share < OWN_WORK
    gain = predict(m, counterfactual) if is_replayed else unknown_gain(ASSUMED, because=HOST_WORK_STAYS())
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=_title(m, share, long_share, worst),
        share=share,
        share_low=low,
        share_high=high,
        claims=(claim_of(m, LAUNCH, PieceKind.INSIDE_STEPS, ns),),
        evidence=(
            Evidence(name="idle before a launch", value=share, unit="share of window", threshold=HOST_SHARE),
            Evidence(name="most of it before", value=worst, unit=""),
            Evidence(name="of it in gaps of 1 ms and more", value=long_share, unit="share", threshold=OWN_WORK),
            *_launches(m),
            *_readbacks(m),
            steps_seen(m),
            saved_by(m, counterfactual if is_replayed else None),
        ),
        gain=replace(gain, assumes=f"{ASSUMED}{_and_input(m, gain, high)}"),
        fixes=_fixes(m, long_share >= OWN_WORK, worst),
    )
    return Judged(finding=finding, counterfactual=counterfactual if is_replayed else None)


def _and_input(m: Measurements, gain: Gain, high: float) -> str:
    """Why more is gained than these gaps take: a host that is done with launching fetches input meanwhile."""
    more = gain.predicted is not None and gain.predicted * (1 - high) > 1 + CLAIM
    fetching = m.ledger.share("read") + m.ledger.share("preprocess")
    return "; the host would then fetch input while the device works" if more and fetching >= CLAIM else ""


def _worst(gaps: pl.DataFrame) -> str | None:
    """The operator, range or line before which most of it stands; None where the trace names none."""
    sums = gaps.group_by("call", "operator", "where", maintain_order=True).agg(pl.col("ns").sum())
    named: Counter[str] = Counter()
    for row in sums.iter_rows(named=True):
        if (name := host_work(row)) is not None:
            named[name] += row["ns"]
    return named.most_common(1)[0][0] if named else None


def _title(m: Measurements, share: float, long_share: float, worst: str | None) -> str:
    if long_share >= OWN_WORK:
        return (
            f"the device spends {format_share(share)} of the time waiting for the host's own work between launches ({worst or 'not named'})"
        )
    kernels = m.device.launches["kernels"].median()
    many = f" of {kernels:,.0f} kernels{'' if m.marks.is_window else ' a step'}" if isinstance(kernels, int | float) else ""
    return f"the device spends {format_share(share)} of the time waiting for launches{many}"


def _launches(m: Measurements) -> tuple[Evidence, ...]:
    launches = m.device.launches
    if not launches.height:
        return (Evidence(name="kernels", value=None, unit="per step"),)
    total = max(int(launches["kernels"].sum()), 1)
    return (
        Evidence(name="kernels", value=round(total / launches.height), unit="per step"),
        Evidence(name="median kernel", value=_us(launches["median_kernel_ns"]), unit="us", threshold=LAUNCH_US),
        Evidence(name="kernels shorter than their launch", value=_short(launches), unit="share of kernels"),
        Evidence(name="queue empty", value=_mean(launches["queue_empty_share"]), unit="share of step"),
        Evidence(name="launches of whole graphs", value=int(launches["graph_launches"].sum()), unit="calls"),
    )


def _readbacks(m: Measurements) -> tuple[Evidence, ...]:
    found = readbacks_a_step(m)
    return () if found is None else (Evidence(name="read-backs that the host waits for", value=found[0], unit="per step", where=found[1]),)


def _short(launches: pl.DataFrame) -> float | None:
    known = launches.filter(pl.col("short_kernels").is_not_null())
    return int(known["short_kernels"].sum()) / max(int(known["kernels"].sum()), 1) if known.height else None


def _mean(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_numpy()
    return float(known.mean()) if len(known) else None


def _us(values_ns: pl.Series) -> float | None:
    mean = _mean(values_ns)
    return None if mean is None else mean / 1e3


def _fixes(m: Measurements, own_work: bool, worst: str | None) -> tuple[Fix, ...]:
    """What is advised: no graph takes away what the host does for long between two launches."""
    if own_work:
        if m.marks.is_window:
            return (_look(m, worst),)
        return _look(m, worst), Fix(text="a larger batch: what the host does in each step it does less often", changes_numerics=True)
    found = readbacks_a_step(m)
    first = "" if found is None else f"take the step's read-backs ({found[0]:,.0f}) out first, then: "
    words = m.training.words
    return (
        Fix(text=f"{first}{words.advise(Remedy.STEP_AS_GRAPH)}"),
        Fix(text=words.advise(Remedy.FUSE_STEP), changes_numerics=True),
        Fix(text="a larger batch: each kernel does more work for the same launch", changes_numerics=True),
    )


def _look(m: Measurements, worst: str | None) -> Fix:
    if m.marks.is_window:
        # What the first calls of a runtime and its libraries set up happens once.
        work = "the host's own work" if worst is None else f"what the host does around {worst}"
        return Fix(text=f"see whether {work} recurs in each step, or is done once at the start: {to_mark_steps(m)}, and trace some steps")
    if worst is not None:
        return Fix(text=f"find out what the host does around {worst} (Python, locks, other threads), and take it out of the step")
    words = m.training.words
    name = words.advise(Remedy.NAME_RANGE, name="augment")
    stacks = "" if has_stacks(m) else f", or {words.advise(Remedy.RECORD_FUNCTIONS)}"
    return Fix(text=f"find out what the host does there, and take it out of the step: name what you suspect, {name}{stacks}")


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("completeness", "device", "facts", "ledger", "marks", "replay", "steps", "training"),
    judge=judge,
)
