"""Most of a step is fixed cost, the same however few samples it has.

What it sees:
    The fixed cost of the training thread's own work is at least half of the step. It is measured where steps of different sizes were seen
    (the last batch of an epoch), by the line through them and the usual ones right before; else it is known only between bounds: the
    optimizer's time (nothing where it calls a closure), and that plus an upper bound for dispatching every operation of forward and
    backward. Where the graphs of backward passes were looked at, the lower bound also has what their elements and products take no part of,
    and as little next to it for forward as was ever measured (an eighth); not where a loop over the samples may have made them, nor where
    an operation's work is not known by its shapes. Where a call of a traced graph makes all of an update, the bounds are what such a call
    and the operations of the graph take at least and at most, whose number its trace has. In a profiler's trace: the device waits
    for launches for at least half of the steps, and at least half of its kernels are shorter than their launch.
Why it costs:
    Optimizer, dispatching operations, receiving a batch and Python between them cost the same for two samples as for twenty.
How the gain is predicted:
    Per sample: with a batch k times as large the fixed cost is paid once per k batches. k is the smallest power of two that brings it under
    a fifth of the step, at most 8. Where the fixed cost is known between bounds only, it is taken for all that is neither forward nor
    backward and 14 us for each of their autograd nodes, or what backward is left of by what its elements usually take, or for what
    operations of a graph usually take; the interval has the bounds. B is what the loader's workers need for as many samples. From a
    trace: steps with twice the samples are replayed, in which launches and the gaps between them do not grow. Where an optimizer that
    is not fused takes half of the fixed cost or more, unfused-optimizer leads.
When it is wrong:
    The cost per sample is assumed to fall by a tenth (5 % more to 60 % less in the interval): small operations do not fill the vector
    units, large ones not the caches. A last batch of one sample makes the fixed cost look too small: products and convolutions of one
    sample are other code, and faster, than those of two (in the case study 0.54 of the step instead of 0.65, by last batches of one and of
    two samples where the usual ones hold three). A larger batch needs more memory, and may need another learning rate: it changes the
    numerics. A hook on a tensor that computes with it, numbers that became nearly zero (denormal), or a processor twice as slow next to its
    memory make backward take longer for an element than it is said to take at most. Launches are slower under a profiler than without.
    Of a traced graph an operation that is neither on samples nor on variables, and long all the same (a product of large constants of
    the script's), is taken for as short as the others.
What to try:
    A larger batch size; a fused or foreach optimizer; torch.compile.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from slowstep.analyses.compute.fixed_cost import FEWEST_SMALL, FixedCost
from slowstep.analyses.events.parts import LAUNCH
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import LARGER_BATCH
from slowstep.calibration import computing
from slowstep.diagnosis.evidence.compute.larger_batch import LARGEST_FACTOR, usual_step_ns
from slowstep.diagnosis.evidence.compute.optimizer_side import LARGEST, flush_denormals, fused, optimizer_ns, unfused
from slowstep.diagnosis.evidence.profiled.marked_steps import per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import no_device, no_launches
from slowstep.diagnosis.evidence.trainer_side import concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import batch_size
from slowstep.diagnosis.provider import Details, HeldTime, Provided, Provider, Unsure
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import Answer, Rule, judge_provided
from slowstep.findings import Evidence, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.parts import UPDATES
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "small-batch"
DOMINATES = 0.5
# The step is no longer dominated when the fixed cost is this share.
ENOUGH = 0.20
# An operator that takes less is as good as all fixed cost: dispatching one takes 7 to 28 us with its backward (`computing.DISPATCH`).
SHORT_OPERATOR_NS = 10_000
# A tenth of a step is worth looking at; a profiler makes such operators up to twice as long (in six traces of trainings whose steps are
# not made of them, they take 3 to 9 %).
UNJUDGED_SHORT = 0.20
# How the cost per sample changes beyond the sizes seen.
PER_SAMPLE_EXPECTED, (PER_SAMPLE_OPTIMISTIC, PER_SAMPLE_PESSIMISTIC) = computing.LARGER_BATCH.value, computing.LARGER_BATCH.bounds

SAMPLES_UNKNOWN = Wording(
    "samples-unknown",
    "most of a step would be the same for any batch size, but how many samples a step holds is not known; use slowstep.steps()",
)
COST_UNKNOWN = Wording(
    "cost-unknown",
    "it is not known how much of a step would be the same for any batch size, nor whether larger batches would help: {sizes}, and {why}",
)
COST_OF_FEW_SIZES = Wording(
    "cost-of-few-sizes",
    "between {low:share} and {high:share} of a step would be the same for any batch size, so it is not known whether larger batches would "
    "help: {sizes}; {remedy}",
)
COST_TOO_WIDE = Wording(
    "cost-too-wide",
    "between {low:share} and {high:share} of a step would be the same for any batch size ({source}), so it is not known whether larger "
    "batches would help; record longer, on a quieter machine",
)
SIZES_VARY = Wording(
    "sizes-vary",
    "steps held {fewest} to {most} samples, and not just an epoch's last held fewer: that does not show the fixed cost",
)
ONE_SIZE = Wording("one-size", "all batches had the same size")
FEW_SMALLER_STEPS = Wording(
    "few-smaller-steps",
    f"only {{count}} smaller step{{count:plural  was|s were}} seen, and {FEWEST_SMALL} are needed to know the fixed cost",
)
SHORT_OPERATORS = Wording(
    "short-operators",
    f"{{each:,.0f}} operators per step of less than {SHORT_OPERATOR_NS / 1000:.0f} us take {{share:share}} of the time, and how much of "
    "that is the profiler's is unknown; use slowstep run",
)


def judge(m: Measurements) -> Answer:
    """Whether most of a step is what it takes however few samples it holds."""
    return judge_provided(m, NAME, PROVIDERS)


def _by_sizes(m: Measurements) -> Provided:
    """What the fixed cost holds of the step, if it dominates that."""
    cost = m.compute.fixed_cost
    step = usual_step_ns(m)
    # By a clock that did not go on in the usual step nothing of it can be told.
    if step <= 0 or (cost.high_ns is not None and cost.high_ns < DOMINATES * step):
        return None
    fixed = cost.value_ns if cost.value_ns is not None else cost.low_ns
    if fixed < DOMINATES * step:
        # The sizes of the same run are the same again; where the machine was busy, a quieter one may tell.
        change = None if cost.value_ns is not None or (cost.high_ns is None and m.machine.load.busy) else _another_size(cost)
        return Unsure(reason=_reason(cost, step, busy=m.machine.load.busy), lever=_telling(m, cost), change=change)
    if cost.samples is None:
        return Unsure(reason=SAMPLES_UNKNOWN())
    # At least so much of it is fixed: that it dominates is certain, how far it does is not.
    fixed = max(cost.likely_ns or fixed, fixed)
    share, low, high = share_interval(m, 0.0 * m.step_ns + fixed)
    low, high = min(low, cost.low_ns / step), max(high, (cost.high_ns or fixed) / step)
    # Where it dominates the usual step that is said, however little it is of a window with long pauses.
    return HeldTime(share=share, low=low, high=high, at_least=0.0, details=partial(_of_fixed_cost, m, cost, fixed, step))


def _reason(cost: FixedCost, step: float, *, busy: bool) -> Reason:
    if cost.high_ns is None:
        why = "the machine was busy" if busy else "its operations were not counted"
        return COST_UNKNOWN(sizes=_sizes(cost), why=why)
    # The steps that it is known from may take longer than the usual one.
    low, high = (min(ns / step, 1.0) for ns in (cost.low_ns, cost.high_ns))
    if cost.value_ns is None:
        return COST_OF_FEW_SIZES(sizes=_sizes(cost), low=low, high=high, remedy=_another_size(cost))
    return COST_TOO_WIDE(low=low, high=high, source=cost.source)


def _another_size(cost: FixedCost) -> str:
    return f"{'record longer, or ' if cost.smaller else ''}try another batch size"


def _sizes(cost: FixedCost) -> Reason:
    if cost.varied is not None:
        return SIZES_VARY(fewest=cost.varied[0], most=cost.varied[1])
    return FEW_SMALLER_STEPS(count=cost.smaller) if cost.smaller else ONE_SIZE()


def _telling(m: Measurements, cost: FixedCost) -> str | None:
    """The lever that shows what a larger batch gains, where the loader can be built with one."""
    if cost.varied is not None or not cost.samples or m.input.loader is None or m.machine.load.busy:
        return None
    return batch_size(2 * _of_loader(m, cost))


def _of_loader(m: Measurements, cost: FixedCost) -> int:
    """The batch size that the loader was built with: a step may hold several batches, and a sample several rows of a tensor."""
    size = None if m.input.loader is None else m.input.loader.batch_size
    return size or round(cost.samples or 0.0)


def _of_fixed_cost(m: Measurements, cost: FixedCost, fixed: float, step: float) -> Details:
    factor = _factor(fixed, step)
    size = round((cost.samples or 0.0) * factor)
    counterfactual = _counterfactual(m, cost, fixed, factor, size)
    evidence = (
        Evidence(name="fixed cost of a step", value=fixed / 1e6, unit="ms", threshold=DOMINATES * step / 1e6, where=cost.source),
        Evidence(name="its share of the step", value=fixed / step, unit="share of step", threshold=DOMINATES),
        Evidence(name="batch size", value=round(cost.samples or 0.0), unit="samples"),
        Evidence(name="batch size assumed", value=size, unit="samples"),
        *_of_optimizer(m, fixed),
        saved_by(m, counterfactual),
    )
    return Details(
        stage="compute",
        title=f"{format_share(fixed / step)} of a step is a fixed cost, however small the batch is, and a batch holds only "
        f"{round(cost.samples or 0.0)} samples",
        claims=m.ledger.parts_of("compute"),
        evidence=evidence,
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=_fixes(m, cost, factor),
    )


def _of_optimizer(m: Measurements, fixed: float) -> tuple[Evidence, ...]:
    """What of it the optimizer takes; nothing where it is a part of calls that make whole updates."""
    if m.ledger.of_parts(UPDATES).any():
        return ()
    return (Evidence(name="optimizer", value=optimizer_ns(m) / 1e6, unit="ms", threshold=LARGEST * fixed / 1e6),)


def _fixes(m: Measurements, cost: FixedCost, factor: int) -> tuple[Fix, ...]:
    """What the gain is of comes first."""
    fixes = (_larger(m, cost, factor), flush_denormals(m), _fixed_cost_lower(m))
    return tuple(fix for fix in fixes if fix is not None)


def _fixed_cost_lower(m: Measurements) -> Fix:
    """What lowers the fixed cost itself: compiling, and where users of the framework choose one a fused optimizer."""
    words, kind = m.training.words, unfused(m)
    compiled = words.advise(Remedy.COMPILE)
    if kind is None and not words.has(Remedy.FUSED):
        return Fix(text=f"{compiled}, unless it is: it lowers the fixed cost itself")
    optimizer = words.advise(Remedy.FUSED_OPTIMIZER) if kind is None else fused(words, kind)
    return Fix(text=f"{optimizer}, or {compiled}: both lower the fixed cost itself")


def _larger(m: Measurements, cost: FixedCost, factor: int) -> Fix:
    """The fix: by a lever where there is one batch size to change."""
    if cost.varied is not None:
        return Fix(text=f"batches {factor} times as large (memory permitting; scale the learning rate)", changes_numerics=True)
    own = _of_loader(m, cost)
    last = _last_batch(m, factor * own)
    text = f"batch size {factor * own} instead of {own}{_by(m.training.words)} (memory permitting; scale the learning rate){last}"
    return Fix(text=text, lever=batch_size(factor * own), changes_numerics=True)


def _last_batch(m: Measurements, size: int) -> str:
    """What becomes of the last batch of a pass, where that is one sample or would be the only one."""
    loader, length = m.input.loader, m.input.facts.dataset_length
    if loader is None or length is None or m.steps.requests_per_step != 1:
        return ""
    if loader.drop_last:
        return f"; of {length} samples drop_last=True leaves no batch of that size" if length < size else ""
    return "; drop_last=True, for the last batch is one sample then, which batch norm refuses" if length % size == 1 else ""


def _by(words: Words) -> str:
    """The argument for it, where that is called otherwise."""
    name = words.name_of(Remedy.BATCH_SIZE, "batch_size")
    return "" if name == "batch_size" else f", by {words.write({Remedy.BATCH_SIZE: ...})}"


def _factor(fixed: float, step: float) -> int:
    """The smallest power of two by which the batch must grow for the fixed cost to be a fifth of the step."""
    variable = max(step - fixed, 0.0)
    factor = 2
    while factor < LARGEST_FACTOR and fixed > ENOUGH * (fixed + factor * variable):
        factor *= 2
    return factor


def _counterfactual(m: Measurements, cost: FixedCost, fixed: float, factor: int, size: int) -> Counterfactual:
    """In terms of a step that is `factor` times as large: removed_ns is negative, because it takes longer."""
    step = m.step_ns

    def case(fixed_ns: float, change: float) -> Case:
        variable = (step - fixed_ns).clip(min=0.0) * (1 + change)
        after = fixed_ns + factor * variable
        # The training thread's CPU time grows with its step, not with the samples.
        spared = (m.compute.trainer_cpu_ns or 0.0) * float(1 - after.mean() / (factor * step.mean()))
        return Case(removed_ns=step - after, concurrent_ns=factor * concurrent_producers_ns(m, spared_cpu_ns=spared))

    return Counterfactual(
        assumes=f"the batch size were {size}, with a tenth less time per sample beyond the fixed cost",
        expected=case(fixed, PER_SAMPLE_EXPECTED),
        pessimistic=case(min(cost.low_ns, fixed), PER_SAMPLE_PESSIMISTIC),
        optimistic=case(max(cost.high_ns or fixed, fixed), PER_SAMPLE_OPTIMISTIC),
        samples_ratio=float(factor),
    )


def _by_launches(m: Measurements) -> Provided:
    """What launching holds of the steps, if the kernels are too short to hide it."""
    missing = no_device(m)
    if missing is not None:
        return Unsure(reason=missing)
    if not m.device.seen:
        return _on_the_host(m)
    launches = m.device.launches.filter(pl.col("short_kernels").is_not_null())
    share, low, high = share_of_steps(m, per_step(m, LAUNCH))
    short = int(launches["short_kernels"].sum()) / max(int(launches["kernels"].sum()), 1)
    if share < DOMINATES or short < DOMINATES:
        missing = no_launches(m, DOMINATES)
        return Unsure(reason=missing) if missing is not None else None
    return HeldTime(share=share, low=low, high=high, at_least=DOMINATES, details=partial(_of_launches, m, launches, short, share))


def _of_launches(m: Measurements, launches: pl.DataFrame, short: float, share: float) -> Details:
    counterfactual = Replayed(LARGER_BATCH, assumes="twice the samples in a step took as many launches and gaps as now")
    return Details(
        stage="compute",
        title=f"the device waits {format_share(share)} of the time for launches of kernels that are shorter than those: batches are "
        "too small for it",
        claims=(LAUNCH,),
        evidence=(
            Evidence(name="idle before a launch", value=share, unit="share of window", threshold=DOMINATES),
            Evidence(name="kernels shorter than their launch", value=short, unit="share of kernels", threshold=DOMINATES),
            Evidence(name="kernels", value=int(launches["kernels"].sum()) / max(launches.height, 1), unit="per step"),
            Evidence(name="batch size", value=m.steps.batch_size, unit="samples", where=m.steps.batch_size_from),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=_fixes_of_launches(m),
    )


def _on_the_host(m: Measurements) -> Unsure | None:
    """Why a training without a device cannot be called free of it: what a short operator takes is its fixed cost, and the profiler's."""
    short = m.device.operators.filter(pl.col("host_self_ns") < SHORT_OPERATOR_NS * pl.col("count"))
    share = int(short["host_self_ns"].sum()) / max(m.steps.length_ns, 1)
    if share < UNJUDGED_SHORT:
        return None
    each = int(short["count"].sum()) / max(len(m.step_ns), 1)
    return Unsure(reason=SHORT_OPERATORS(each=each, share=share))


def _fixes_of_launches(m: Measurements) -> tuple[Fix, ...]:
    own, words = m.steps.batch_size, m.training.words
    size = f"batch size {2 * own} instead of {own}" if own is not None else "twice the batch size, or more"
    lever = None if own is None else batch_size(2 * own)
    return (
        Fix(text=f"{size}{_by(words)} (memory permitting; scale the learning rate)", lever=lever, changes_numerics=True),
        Fix(text=f"CUDA graphs ({words.advise(Remedy.GRAPHS)}) or a compiled step: both lower the cost of launching itself"),
    )


PROVIDERS = (
    Provider(topics=("completeness", "device", "facts", "marks", "replay"), find=_by_launches),
    Provider(topics=("compute", "input", "machine", "over_time", "trainer"), find=_by_sizes),
)
RULE = Rule(name=NAME, stages=("compute",), topics=("ledger", "steps", "training"), providers=PROVIDERS, judge=judge)
