"""Steps take longer and longer over the run.

What it sees:
    A line through the time per step of one part of the ledger rises, in both halves of the run, by at least a tenth of the first step with
    99.9 % certainty (or the part takes more than twice as long in the last third of the run as in the first, and the middle lies between),
    and steps (validation, checkpoints and epoch changes left out) rise with it. At least 96 steps are needed.
Why it costs:
    What grows with the number of steps done - a list that is kept and walked, a graph that is not let go, a file that is read again - costs
    the square of it over a run: what is 10 % today is the most of the step tomorrow.
How the gain is predicted:
    r is what the growing part takes more than at the first update, to which its line is drawn back. B is what the loader's workers need
    per step. The gain is that over the steps recorded; over a longer run it is larger.
When it is wrong:
    A machine that slows down (heat, a neighbour that grows) looks the same. What a step's number of forwards explains (episodes that get
    longer as an agent learns) is taken out before, and with it whatever grows just as that does. Forward and backward also grow with the
    inputs (a curriculum, data that are sorted by length): up to the square of these nothing is blamed, and where the inputs' size is not
    known and both grow, this is not judged.
What to try:
    Keep running sums instead of all values, detach() what is kept, append to files instead of writing them anew.
"""

from __future__ import annotations

from slowstep.analyses.growth import Growth
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.gain import predict, share_interval
from slowstep.diagnosis.growing import GROWN_BY, growing, growth_counterfactual, growth_evidence, is_file
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Finding, Fix, NotJudged
from slowstep.stages import STAGES

NAME = "growing-step-time"
# Attention takes the square of its sequence's length, the most of what models are made of.
LARGEST_POWER = 2


def judge(m: Measurements) -> Answer:
    """Whether a part of the step grows over the run, other than the writing of a file."""
    growth = growing(m)
    if growth is None or is_file(growth):
        return None
    if (doubt := _by_inputs(m, growth)) is not None:
        return doubt
    share, low, high = share_interval(m, growth.above_ns)
    if share < CLAIM:
        return None
    counterfactual = growth_counterfactual(m, growth, f"{growth.part[1]} takes no longer than at first")
    first, last = m.over_time.trend.first if m.over_time.trend else 0.0, m.over_time.trend.last if m.over_time.trend else 0.0
    finding = Finding(
        rule=NAME,
        stage=growth.part[0],
        title=f"steps grow from {first / 1e6:.0f} to {last / 1e6:.0f} ms over the run, by: {growth.part[1]}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(growth.part[1],),
        evidence=growth_evidence(m, growth, share),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"look for what {growth.part[1]} keeps or walks from step to step: keep sums instead of all values, detach() them"),
        ),
        names_cause="(" in growth.part[1],
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _by_inputs(m: Measurements, growth: Growth) -> NotJudged | None:
    """Why the model's own work may grow with what it is given; None where it does not."""
    sizes = m.input.sizes
    if not growth.is_models or (sizes is None and not growth.both):
        return None
    times = f"{growth.part[1]} grows from {max(growth.trend.first, 0.0) / 1e6:.1f} to {growth.trend.last / 1e6:.1f} ms a step"
    if sizes is None:
        reason = (
            f"{times}, and so does the rest of the model's work: longer inputs do that, and so does a graph that is kept; see which it is"
        )
        return NotJudged(rule=NAME, reason=reason)
    if growth.trend.last > (1 + GROWN_BY) * max(growth.trend.first, 0.0) * sizes.growth**LARGEST_POWER:
        return None
    return NotJudged(rule=NAME, reason=f"{times} with its inputs, of which the last are {sizes.growth:.1f} times as large", advisory=True)


RULE = Rule(name=NAME, stages=STAGES, judge=judge)
