"""Steps take longer and longer over the run.

What it sees:
    A line through the time per step of one part of the ledger rises, in both halves of the run, by at least a tenth of the first step with
    99.9 % certainty (or the part takes more than twice as long in the last third of the run as in the first, and the middle lies between),
    and steps (validation, checkpoints and epoch changes left out) rise with it. At least 96 steps are needed.
Why it costs:
    What grows with the number of steps done - a list that is kept and walked, a graph that is not let go, a file that is read again - costs
    the square of it over a run: what is 10 % today is the most of the step tomorrow.
How the gain is predicted:
    r is what the growing part takes more than at the first update, to which its line is drawn back. Where it runs after the update, the
    step after it gets shorter with it, as after slow-callback's. B is what the loader's workers need per step. The gain is that over the
    steps recorded; over a longer run it is larger.
When it is wrong:
    A machine that slows down (heat, a neighbour that grows) looks the same: where its pace varied, growth by less than two runs on it may
    differ is not blamed. What a step's number of forwards explains (episodes that get
    longer as an agent learns) is taken out before, and with it whatever grows just as that does. Forward and backward also grow with the
    inputs (a curriculum, data that are sorted by length): up to the square of these nothing is blamed, and where the inputs' size is not
    known and both grow, this is not judged. Nor are forward, backward and optimizer of a model of which ever more parameters get a gradient
    (gradual unfreezing, layers that are added), where they grow with these, not while these stay the same. A step that makes ever more
    operations (longer unrolling) is not separated from a history that is walked: this is not judged, unless operations of earlier steps are
    found among them, which is a graph that is kept. What the loop itself runs between its update and the request for the next input may
    hold the GIL all the time: then no stack names its line, and only where it runs is said. What fewer than five stacks name
    is not blamed. That an optimizer which alone grows on a processor meets denormal numbers is a guess: they are not counted.
What to try:
    torch.set_flush_denormal(True) where it is the optimizer. Keep running sums instead of all values, detach() what is kept, append to
    files instead of writing them as a whole.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.growth import PartGrowth
from slowstep.analyses.over_time.over_time import WORK
from slowstep.diagnosis.evidence.compute.optimizer_side import flush_denormals
from slowstep.diagnosis.evidence.growing import growing, grown, growth_counterfactual, growth_evidence, is_file, stacks_too_few
from slowstep.diagnosis.evidence.growing_model import does_more, keeps_graph
from slowstep.diagnosis.gain import predict, share_interval
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import is_plural
from slowstep.parts import PartKind
from slowstep.reasons import Wording
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.units import format_duration

NAME = "growing-step-time"

GROWTH_BY_FEW_STACKS = Wording(
    "growth-by-few-stacks",
    "steps grow by {part}, according to only {stacks} stack samples, too few to be sure; put slowstep.span() around it",
)


def judge(m: Measurements) -> Answer:
    """Whether a part of the step grows over the run, other than the writing of a file."""
    growth = growing(m)
    if growth is None or is_file(m, growth):
        return None
    if (doubt := does_more(m, growth, NAME)) is not None:
        return doubt
    if (stacks := stacks_too_few(m, growth)) is not None:
        return NotJudged(rule=NAME, reason=GROWTH_BY_FEW_STACKS(part=grown(m, growth), stacks=stacks))
    share, low, high = share_interval(m, growth.above_ns)
    if share < CLAIM:
        return None
    takes = "take" if is_plural(growth.part) else "takes"
    counterfactual = growth_counterfactual(m, growth, f"{grown(m, growth)} {takes} no longer than at first")
    first, last = m.over_time.trend.first if m.over_time.trend else 0.0, m.over_time.trend.last if m.over_time.trend else 0.0
    finding = Finding(
        rule=NAME,
        stage=growth.part.stage,
        title=f"steps grow from {format_duration(first)} to {format_duration(last)} over the run, by: {grown(m, growth)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(growth.part,),
        evidence=(*growth_evidence(m, growth, share, counterfactual), *_graph_evidence(m, growth)),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, growth),
        names_cause=growth.part.place is not None or growth.part.kind is PartKind.LIBRARY_CALL,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _graph_evidence(m: Measurements, growth: PartGrowth) -> tuple[Evidence, ...]:
    graph = m.over_time.graph
    if graph is None or growth.part not in WORK:
        return ()
    kept = (None, None) if graph.kept is None else graph.kept
    return (
        Evidence(name="operations in a step's autograd graph at first", value=graph.nodes[0], unit="nodes"),
        Evidence(name="operations in a step's autograd graph at the end", value=graph.nodes[1], unit="nodes"),
        Evidence(name="of them from earlier steps", value=kept[1], unit="nodes"),
    )


def _fixes(m: Measurements, growth: PartGrowth) -> tuple[Fix, ...]:
    walked, flushed = _fix(m, growth), flush_denormals(m)
    return (walked,) if flushed is None else (flushed, walked)


def _fix(m: Measurements, growth: PartGrowth) -> Fix:
    name = grown(m, growth)
    if keeps_graph(growth, m.over_time.graph):
        return Fix(text=f"{m.training.words.advise(Remedy.KEPT_GRAPHS)}: backward walks their graphs too")
    if growth.part in WORK:
        return Fix(text=f"look for what {name} keeps or walks from step to step: keep sums, or the last few, instead of all values")
    if growth.part.stage == UNATTRIBUTED:
        return Fix(
            text=f"see {name} for what is searched, walked or copied in each step, and gets longer: use a set or a dict for a list, or "
            "keep sums; slowstep.span() around what may be it shows what it takes"
        )
    verbs = "walk, copy or write" if is_plural(growth.part) else "walks, copies or writes"
    return Fix(text=f"look for what {name} {verbs} again in each step: keep sums instead of all values, append to files")


RULE = Rule(
    name=NAME, stages=STAGES, topics=("compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"), judge=judge
)
