"""Collectives run while the device computes nothing.

What it sees:
    Collectives during which no compute kernel runs hold at least 10 % of the window, the threshold of the Kineto plugin (XProf: 3 and 15 %;
    gpuprof: 20 %). Under it the gain is below 1.11, and the last bucket of gradients can never be hidden.
Why it costs:
    Gradients are summed over the ranks while nothing else is done: the more ranks, the more of every step is lost.
How the gain is predicted:
    The steps are replayed with the collectives during the backward, as far as the backward reaches. Where that makes no step shorter (the
    device waits for the host meanwhile), there is no finding.
When it is wrong:
    A collective waits for its slowest rank: one rank's trace cannot distinguish waiting from sending, and where another rank is late
    overlapping gains nothing. With the traces of all ranks in one folder that waiting is left out. Sampled or single steps after a
    checkpoint show waits that others do not have. Tensor-parallel and pipeline-parallel collectives stand between the layers and cannot be
    moved.
What to try:
    Overlap by DDP's or FSDP's own means, fewer exchanges by accumulation, gradients in 16 bit, a larger batch.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.events.parts import COLLECTIVES
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import COMMUNICATION_OVERLAPPED
from slowstep.diagnosis.evidence.device.kernel_side import unless_hidden
from slowstep.diagnosis.evidence.profiled.marked_steps import per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import no_device
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_share

NAME = "exposed-communication"
# The Kineto TensorBoard plugin's mark for communication.
SHARE = 0.10
NOT_SEEN = "no other rank is late (which was not recorded)"
COMPARE_RANKS = Fix(
    text="compare the ranks: slowstep analyze on the folder of all ranks' traces; where one is late, its own cause comes first"
)
# Exchanges that stand between the layers: accumulation and buckets of gradients do nothing for them.
BETWEEN_LAYERS = {
    "all_to_all": Remedy.EXCHANGE_AHEAD,
    "send_recv": Remedy.MORE_MICRO_BATCHES,
}


def judge(m: Measurements) -> Answer:
    """Whether collectives stand alone for a tenth of the time."""
    missing = no_device(m)
    if missing is not None:
        return NotJudged(rule=NAME, reason=missing)
    share, low, high = share_of_steps(m, per_step(m, COLLECTIVES))
    if share < SHARE:
        return None
    collectives = m.device.collectives.sort("exposed_ns", descending=True)
    ranks = m.facts.world_size or collectives["group_size"].max()
    counterfactual = Replayed(COMMUNICATION_OVERLAPPED, assumes=assumes(NOT_SEEN))
    finding = Finding(
        rule=NAME,
        stage="gradient_sharing",
        title=f"collectives run for {format_share(share)} of the time while nothing is computed{_mostly(collectives)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(COLLECTIVES,),
        evidence=(
            Evidence(name="exposed collectives", value=share, unit="share of window", threshold=SHARE),
            Evidence(name="overlapped already", value=_overlapped(collectives), unit="share of collectives' time"),
            *_rows(m, collectives),
            Evidence(name="ranks", value=ranks if isinstance(ranks, int) else None, unit="ranks"),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, collectives["operation"][0] if collectives.height else None),
    )
    return unless_hidden(finding, counterfactual)


def assumes(others: str) -> str:
    """What its gain assumes, of the `others` too: whether another rank is late."""
    return f"the collectives ran during the backward pass as far as it reaches, and {others}"


def _mostly(collectives: pl.DataFrame) -> str:
    if not collectives.height:
        return ""
    return f" (mostly {collectives['operation'][0]}, {collectives['library'][0]})"


def _overlapped(collectives: pl.DataFrame) -> float | None:
    both = int(collectives["overlapped_ns"].sum()) + int(collectives["exposed_ns"].sum())
    return int(collectives["overlapped_ns"].sum()) / both if both else None


def _rows(m: Measurements, collectives: pl.DataFrame) -> tuple[Evidence, ...]:
    rows = []
    for row in collectives.head(3).iter_rows(named=True):
        size = f" of {row['bytes'] / 1e6:.3g} MB" if row["bytes"] is not None else ""
        each = row["count"] / max(m.marks.table.height, 1)
        share = row["exposed_ns"] / max(m.steps.length_ns, 1)
        rows.append(Evidence(name=f"{row['operation']}{size}, {each:.3g} a step", value=share, unit="share of window", where=row["name"]))
    speed = collectives.filter(pl.col("bus_gb_per_s").is_not_null()).head(1)
    rows.append(Evidence(name="bus bandwidth of the first", value=speed["bus_gb_per_s"][0] if speed.height else None, unit="GB/s"))
    return tuple(rows)


def _fixes(m: Measurements, operation: str | None) -> tuple[Fix, ...]:
    words = m.training.words
    if operation in BETWEEN_LAYERS:
        return Fix(text=words.advise(BETWEEN_LAYERS[operation])), COMPARE_RANKS
    return (
        Fix(text=words.advise(Remedy.OVERLAP_COLLECTIVES)),
        Fix(text=f"exchange every k micro-batches: {words.advise(Remedy.ACCUMULATE, ...)}", changes_numerics=True),
        Fix(text=words.advise(Remedy.SMALLER_COLLECTIVES), changes_numerics=True),
        COMPARE_RANKS,
    )


RULE = Rule(
    name=NAME, stages=("gradient_sharing",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge
)
