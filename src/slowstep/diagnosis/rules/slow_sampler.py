"""The loader's sampler takes long to draw the next indices, on the training thread.

What it sees:
    Stacks of the training thread (five at least) stand in the sampler, inside requests for the next batch, and for at least 5 % of the
    window. Its function is named. Where the training thread makes its batches itself (num_workers=0), how long it draws is measured, and
    calls that were timed in a few steps name the function, which is not the framework's own.
Why it costs:
    Workers make samples, but the indices are drawn by the training thread, whenever it receives a batch: it waits for its own sampler.
How the gain is predicted:
    r is 95 % of that time (80 % at worse, all of it at better, each by the interval of a share of stacks where it is known by those).
    B is what the workers need per step.
When it is wrong:
    With workers only stacks tell what of the time in requests is the sampler's: what holds the GIL is seen where it ends. A
    sampler that must look at the model's last results cannot draw ahead.
What to try:
    Draw a whole epoch's indices in one operation (numpy.random.choice with size=, torch.multinomial), or WeightedRandomSampler.
"""

from __future__ import annotations

from slowstep.analyses.drawing import Drawing
from slowstep.analyses.functions import shown
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps import Floats
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.input_side import WAIT_SHARE
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.diagnosis.spread import EXACT, Spread, stack_spread
from slowstep.diagnosis.trainer_side import WORSE_BESIDE, producers_beside_ns
from slowstep.findings import Evidence, Finding, Fix
from slowstep.parts import Part, PartKind
from slowstep.units import format_share

NAME = "slow-sampler"
DRAWING = Part("preprocess", PartKind.DRAWING)
# What is left after the fix: the same assumption as slow-transform's.
LEFT, LEFT_AT_WORSE = 0.05, 0.20


def judge(m: Measurements) -> Answer:
    """Whether drawing indices holds the training thread."""
    drawing = m.drawing
    drawn = m.ledger.of_parts(DRAWING) * (drawing.held if drawing is not None else 1.0)
    share, low, high = share_interval(m, drawn)
    if drawing is None or share < WAIT_SHARE:
        return None
    spread = EXACT if drawing.gaps else stack_spread(drawing.stacks, drawing.of_stacks)
    counterfactual = _counterfactual(m, drawn, spread)
    name, where = drawing.function.function, f"{shown(drawing.function.file, m.trainer.facts.script)}:{drawing.function.first_line}"
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"the training thread draws the loader's next indices itself: {name} ({where}) takes {format_share(share)} of the time",
        share=share,
        share_low=low * spread.low,
        share_high=min(high * spread.high, 1.0),
        claims=(DRAWING,),
        evidence=(
            Evidence(name="function", value=name, unit="", where=where),
            Evidence(name="drawing indices", value=share, unit="share of window", threshold=WAIT_SHARE),
            _known_by(drawing),
            Evidence(name="fix saves per step", value=float(counterfactual.expected.removed_ns.mean()) / 1e6, unit="ms"),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"draw a whole epoch's indices in one operation in {name} (numpy.random.choice with size=, torch.multinomial)"),
            Fix(text="torch.utils.data.WeightedRandomSampler, where it draws by fixed weights"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _known_by(drawing: Drawing) -> Evidence:
    if drawing.gaps:
        return Evidence(name="timed in", value=drawing.gaps, unit="gaps between steps")
    return Evidence(name="stack samples in it", value=drawing.stacks, unit="samples", where=f"of {drawing.of_stacks} in requests for input")


def _counterfactual(m: Measurements, drawn: Floats, spread: Spread) -> Counterfactual:
    beside = producers_beside_ns(m, spared_cpu_ns=float(drawn.mean()))
    return Counterfactual(
        assumes="drawing took a twentieth of its time",
        expected=Case(removed_ns=drawn * (1 - LEFT), beside_ns=beside),
        worse=Case(removed_ns=drawn * (1 - LEFT_AT_WORSE) * spread.low, beside_ns=WORSE_BESIDE * beside),
        better=Case(removed_ns=drawn * spread.high, beside_ns=beside),
    )


RULE = Rule(name=NAME, stages=("preprocess",), judge=judge)
