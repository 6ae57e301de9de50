"""The loader's sampler is slow, and it runs on the training thread.

What it sees:
    Stacks of the training thread (five at least) stand in the sampler, inside requests for the next batch, and for at least 5 % of the
    window. Its function is named. Where the training thread makes its batches itself (num_workers=0), how long it draws is measured, and
    calls that were timed in a few steps name the function, which is not the framework's own.
Why it costs:
    Workers make samples, but the indices are drawn by the training thread, whenever it receives a batch: it waits for its own sampler.
How the gain is predicted:
    r is 95 % of that time (80 % at worst, all of it at best, each by the interval of a share of stacks where it is known by
    those). B is what the workers need per step.
When it is wrong:
    With workers only stacks show what of the time in requests is the sampler's: what holds the GIL is seen where it ends. A
    sampler that must look at the model's last results cannot draw ahead.
What to try:
    Draw a whole epoch's indices in one operation (numpy.random.choice with size=, torch.multinomial), or WeightedRandomSampler.
"""

from __future__ import annotations

from slowstep.analyses.batches.sampler import SamplerTime
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE
from slowstep.diagnosis.evidence.spread import EXACT, TimeSpread, stack_spread
from slowstep.diagnosis.evidence.timed_in import timed_in
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, EvidenceCode, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import Part, PartKind
from slowstep.units import format_share

NAME = "slow-sampler"
SAMPLER = Part("preprocess", PartKind.SAMPLER)
# What is left after the fix: the same assumption as slow-transform's.
LEFT, LEFT_PESSIMISTIC = 0.05, 0.20


def judge(m: Measurements) -> Answer:
    """Whether drawing indices holds the training thread."""
    sampler_time = m.input.sampler_time
    drawn = m.ledger.of_parts(SAMPLER) * (sampler_time.held if sampler_time is not None else 1.0)
    share, low, high = share_interval(m, drawn)
    if sampler_time is None or share < WAIT_SHARE:
        return None
    spread = EXACT if sampler_time.gaps else stack_spread(sampler_time.stacks, sampler_time.of_stacks)
    counterfactual = _counterfactual(m, drawn, spread)
    name, where = (
        sampler_time.function.function,
        f"{shown(sampler_time.function.file, m.trainer.facts.script)}:{sampler_time.function.first_line}",
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"the training thread draws the loader's next indices itself: {name} ({where}) takes {format_share(share)} of the time",
        share=share,
        share_low=low * spread.low,
        share_high=min(high * spread.high, 1.0),
        claims=(SAMPLER,),
        evidence=(
            Evidence(name="function", value=name, unit="", where=where),
            *(() if sampler_time.into is None else (Evidence(name="most of it in", value=sampler_time.into, unit=""),)),
            Evidence(name="drawing indices", value=share, unit="share of window", threshold=WAIT_SHARE),
            _known_by(m, sampler_time),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            *_taken_once(sampler_time),
            Fix(text=f"draw a whole epoch's indices in one operation in {name} ({m.training.words.advise(Remedy.INDICES_AT_ONCE)})"),
            Fix(text=m.training.words.advise(Remedy.WEIGHTED_INDICES)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _taken_once(sampler_time: SamplerTime) -> tuple[Fix, ...]:
    """Of a library that is asked index by index: what it gives is the same every time."""
    if sampler_time.into is None:
        return ()
    return (Fix(text=f"take what {sampler_time.into} gives once, as a list or an array, before the indices are drawn"),)


def _known_by(m: Measurements, sampler_time: SamplerTime) -> Evidence:
    if sampler_time.gaps:
        return timed_in(m, sampler_time.gaps)
    where = f"of {sampler_time.of_stacks} in requests for input"
    return Evidence(name="stack samples in it", value=sampler_time.stacks, unit="samples", where=where, code=EvidenceCode.STACKS)


def _counterfactual(m: Measurements, drawn: Floats, spread: TimeSpread) -> Counterfactual:
    beside = concurrent_producers_ns(m, spared_cpu_ns=float(drawn.mean()))
    return Counterfactual(
        assumes="drawing took a twentieth of its time",
        expected=Case(removed_ns=drawn * (1 - LEFT), concurrent_ns=beside),
        pessimistic=Case(removed_ns=drawn * (1 - LEFT_PESSIMISTIC) * spread.low, concurrent_ns=PESSIMISTIC_BESIDE * beside),
        optimistic=Case(removed_ns=drawn * spread.high, concurrent_ns=beside),
    )


RULE = Rule(
    name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge
)
