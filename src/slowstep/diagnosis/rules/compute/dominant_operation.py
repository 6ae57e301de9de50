"""One operation holds a large part of the step.

What it sees:
    Of the operators, distinguished by name, shapes and function, the one with most time of its own on the device (in a trace without a
    device: on the host) holds at least a quarter of the window. In a trace without operators the kernels stand for them.
Why it costs:
    It need not: some operation must be the largest. But whatever is gained in it counts, and whatever is gained elsewhere hardly does.
How the gain is predicted:
    It is not: what the operation could take instead is unknown. The finding is advice.
When it is wrong:
    Operations on several streams at once are added up. A model of equal layers spreads its time over many shapes and lines, and is not
    found here though one kind of operation holds all of it. The line of a backward operation is that of its forward.
What to try:
    A cheaper operation, a smaller input to it, another implementation (fused attention, channels_last), a compiler.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slowstep.analyses.events.places import is_function
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.device.kernel_side import compute_kernels, first_shapes, whose, within
from slowstep.diagnosis.evidence.profiled.marked_steps import steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import has_stacks, no_device, with_stacks
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, EvidenceCode, Finding, Fix, Gain, NotJudged
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "dominant-operation"
# As dominant-module: below a quarter of the time, halving it gains less than 1.14.
WORTH = 0.25
# What only sends has rules of its own.
COMMUNICATES = rf"^(nccl|rccl|gloo|mpi|ucc)(:|$)|(^|::)(multimem_)?all_reduce|{events(Event.COLLECTIVE)}"
# What attention makes its scores with, and its result.
BATCHED_PRODUCT = "bmm|einsum"

NO_OPERATORS = Wording("no-operators", "the trace has no operators: {remedy}")
KIND_ONLY = Wording("kind-only", "{name} holds a quarter of the time, but the trace distinguishes neither shapes nor functions: {remedy}")


def judge(m: Measurements) -> Answer:
    """Whether one operation holds a quarter of the time."""
    missing = no_device(m)
    if missing is not None:
        return NotJudged(rule=NAME, reason=missing)
    own = "device_self_ns" if m.device.seen else "host_self_ns"
    operations = _operations(m, own)
    if not operations.height:
        return _nothing_named(m)
    if operations[own][0] < WORTH * max(m.steps.length_ns, 1):
        return None
    worst = operations.row(0, named=True)
    in_function = worst["where"] is not None and is_function(worst["where"])
    if not in_function and worst["shapes"] is None and m.device.operators.height:
        return _kind_only(m, worst["name"])
    return _dominated_by(m, worst, own, int(operations[own].sum()))


def _dominated_by(m: Measurements, worst: dict[str, Any], own: str, all_ns: int) -> Judged:
    """The finding of an operation whose own time the column `own` has, beside that of all operations."""
    share = min(worst[own] / m.steps.length_ns, 1.0)
    where = within(worst["where"], worst["module"])
    named = whose(worst["name"], where, worst["shapes"]) or worst["name"]
    place = "device" if m.device.seen else "host"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{named} holds {format_share(share)} of the time",
        opens_with_name=True,
        share=share,
        share_low=0.0,
        share_high=1.0,
        claims=(),
        evidence=(
            Evidence(name="operation", value=worst["name"], unit="", where=where, code=EvidenceCode.OPERATION),
            Evidence(name="its share of the time", value=share, unit="share of window", threshold=WORTH, where=where),
            Evidence(name=f"its share of all operators' time on the {place}", value=worst[own] / max(all_ns, 1), unit="share"),
            Evidence(name="calls", value=worst["count"] / max(m.marks.table.height, 1), unit="per step"),
            Evidence(name="shapes", value=first_shapes(worst["shapes"]), unit=""),
            Evidence(name="each", value=worst[own] / max(worst["count"], 1) / 1e6, unit="ms"),
            steps_seen(m),
        ),
        gain=Gain(predicted=None, low=None, high=None, assumes="that operation took less time"),
        fixes=_fixes(m, worst, named),
        names_cause=True,
        advisory=True,
    )
    return Judged(finding=finding, counterfactual=None)


def _operations(m: Measurements, own: str) -> pl.DataFrame:
    """The operators, or where a trace has none the kernels, that compute; most time of their own first."""
    rows = m.device.operators.filter(~pl.col("name").str.contains(COMMUNICATES))
    if not m.device.operators.height and m.device.seen:
        rows = compute_kernels(m).rename({"total_ns": own})
    return rows.sort(own, descending=True).select("name", "shapes", "where", "module", "count", own)


def _nothing_named(m: Measurements) -> Answer:
    if m.device.seen or "operators" in m.facts.recorded:
        return None
    return NotJudged(rule=NAME, reason=NO_OPERATORS(remedy=m.training.words.advise(Remedy.RECORD_OPERATORS)))


def _kind_only(m: Measurements, name: str) -> NotJudged:
    """Where all operations of a kind stand in one row: which of them dominates is not known."""
    ask = m.training.words.advise(Remedy.RECORD_SHAPES if has_stacks(m) else Remedy.RECORD_SHAPES_AND_FUNCTIONS)
    return NotJudged(rule=NAME, reason=KIND_ONLY(name=name, remedy=ask))


def _fixes(m: Measurements, worst: dict[str, Any], named: str) -> tuple[Fix, ...]:
    look = f"look at {named} first{with_stacks(m, [worst['where']])}: a cheaper operation, or a smaller input to it"
    return Fix(text=look), Fix(text=m.training.words.advise(_better(m, worst)), changes_numerics=True)


def _better(m: Measurements, worst: dict[str, Any]) -> Remedy:
    name = worst["name"].lower()
    if "conv" in name:
        return Remedy.FASTER_CONVOLUTION
    return Remedy.FASTER_ATTENTION if _is_attention(m, name) else Remedy.FASTER_OPERATION


def _is_attention(m: Measurements, name: str) -> bool:
    """Whether it is attention by name, or a softmax in a model that multiplies batches of matrices: many losses have one, too."""
    if "softmax" not in name or "log_softmax" in name:
        return "attention" in name
    return bool(m.device.operators["name"].str.contains(BATCHED_PRODUCT).any())


RULE = Rule(name=NAME, stages=("compute",), topics=("device", "facts", "marks", "steps", "training"), judge=judge, advisory=True)
