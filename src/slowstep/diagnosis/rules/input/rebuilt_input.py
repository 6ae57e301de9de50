"""What the loader reads is built again between epochs.

The training thread builds it: a sampler, an index, samples, or the loader.

What it sees:
    Between two updates the training thread is in a method of the loader's data set or sampler, in a function of the script's that makes the
    loader, or in a span of input's (Lightning's train_dataloader), for at least 3 % of the window. Stacks name it, or timed calls. A
    sampler's methods count wherever they are called; all else only where a pass over the loader begins before the next update.
Why it costs:
    Nothing trains meanwhile, and the loader's workers have nothing to do yet: what is built there is in no batch.
How the gain is predicted:
    r is the time of all that is so built, with what it waits for a core. B is what the loader's workers need per step, not below the CPU
    time of what is left divided by the cores. What follows it is shorter as after slow-callback's.
When it is wrong:
    The gap's length is exact, what ran in it is sampled: a share of few stacks is uncertain, and the interval says so. What is
    different in every epoch (pairs mined by the model's last results) cannot be built once: then it is the second fix that gains, and
    less. A data set's method that is called between epochs may serve something else than the next one. Plain functions that compute
    what a sampler is then made of, outside of one that makes the loader, are slow-callback's.
What to try:
    Build it once, before the first epoch, and keep the loader; what must be new in each epoch as operations on whole arrays (NumPy,
    pandas, torch) in place of a loop in Python.
"""

from __future__ import annotations

from slowstep.analyses.after_update.activities import Activity
from slowstep.analyses.input.rebuilt import RebuiltInput
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.after_pause import after_pauses, longer_after, with_pauses
from slowstep.diagnosis.evidence.after_update import activity_of, inner_of, named_as, shortened, timed_spread
from slowstep.diagnosis.evidence.spread import EXACT, TimeSpread, stack_spread
from slowstep.diagnosis.gain import predict, saved_by, share_interval
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, EvidenceCode, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.part_words import is_named, is_plural, part_name, part_name_and_place
from slowstep.parts import PartKind
from slowstep.units import format_share

NAME = "rebuilt-input"


def judge(m: Measurements) -> Answer:
    """Whether building what the loader reads holds the training thread."""
    built = m.input.rebuilt
    if built is None:
        return None
    share, low, high = share_interval(m, built.ns)
    if share < CLAIM:
        return None
    largest, spread, activity = built.parts[0], _spread(m, built), activity_of(m, built.parts[0])
    assumes = f"{part_name(largest)} {'were' if is_plural(largest) else 'was'} done once, before the first epoch"
    queued = float(built.delay_ns.sum() / built.ns.sum())
    counterfactual = shortened(m, built.ns, spread, queued=queued, assumes=assumes)
    spared = after_pauses(m, built.ns)
    counterfactual = with_pauses(counterfactual, spared)
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{part_name_and_place(largest)} {'make' if is_plural(largest) else 'makes'} what the loader reads anew{_often(built)}"
        f"{_with_others(built)}, on the training thread: {format_share(share)} of the time",
        opens_with_name=is_named(largest),
        share=share,
        share_low=low * spread.low,
        share_high=min(high * spread.high, 1.0),
        claims=built.parts,
        evidence=(
            named_as(largest),
            *inner_of(m, activity),
            Evidence(name="made anew every", value=built.every_steps, unit="steps"),
            Evidence(name="making it", value=share, unit="share of window", threshold=CLAIM),
            *_known_by(m, built),
            *longer_after(spared),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m.training.words, part_name(largest), activity),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _spread(m: Measurements, built: RebuiltInput) -> TimeSpread:
    """Spans are known to the instant, timed calls as others in gaps are, all else by its share of the stacks in gaps."""
    largest = built.parts[0]
    if largest.kind is PartKind.SPAN:
        return EXACT
    return timed_spread(m, largest) if m.ledger.timed.get(largest) else stack_spread(_stacks(m, built), sum(m.ledger.gap_stacks.values()))


def _stacks(m: Measurements, built: RebuiltInput) -> int:
    return sum(m.ledger.gap_stacks.get(part, 0) for part in built.parts)


def _known_by(m: Measurements, built: RebuiltInput) -> tuple[Evidence, ...]:
    stacks = _stacks(m, built)
    if not stacks:
        return ()
    where = f"of {sum(m.ledger.gap_stacks.values())} between steps"
    return (Evidence(name="stack samples in it", value=stacks, unit="samples", where=where, code=EvidenceCode.STACKS),)


def _often(built: RebuiltInput) -> str:
    every = built.every_steps
    return "" if every is None else " in every step" if round(every) <= 1 else f" every {round(every)} steps"


def _with_others(built: RebuiltInput) -> str:
    others = len(built.parts) - 1
    return "" if not others else f", with {others} other{'s' if others > 1 else ''}"


def _fixes(words: Words, name: str, activity: Activity | None) -> tuple[Fix, ...]:
    inner = name if activity is None or activity.inner is None else activity.inner[1]
    keep = f", and keep the loader: {words.write({Remedy.KEEP_LOADER: 0})}" if words.has(Remedy.KEEP_LOADER) else ""
    return (
        Fix(text=f"do what {name} does once, before the first epoch, where it gives the same every time{keep}"),
        Fix(text=f"write the loop in {inner} as operations on whole arrays (NumPy, pandas)"),
    )


RULE = Rule(
    name=NAME,
    stages=("preprocess",),
    topics=("after_update", "compute", "input", "ledger", "machine", "steps", "trainer", "training"),
    judge=judge,
)
