"""Functions are compiled inside the steps.

What it sees:
    Ranges in which TorchDynamo, Inductor, XLA, Triton or Numba compile, or in which code that was just compiled is loaded, inside the
    window's steps, while the device had nothing to do (without a device: all of them): at least 3 % of the window, the least that a finding
    may claim; no other profiler names a threshold. Two steps or more must be looked at: the first one compiles. In a recording: calls of
    compilers, by their hooks, that take as much of the window and of its second half, in one of fifty steps or more, and in the second half
    in at least half as many as in the first. What takes a tenth of the time in fewer steps, or ever more rarely, is not judged: new
    models, data sets and shapes are compiled once.
Why it costs:
    Compiling takes from tenths of a second to minutes, and the step waits. Once a training runs, each function should be compiled; a new
    shape, a new Python number or a changed flag makes the compiler begin again, up to its limit, and then it gives up.
How the gain is predicted:
    The steps of a trace are replayed without it. Of a recording r is what compiling takes in that half of the window in which it takes
    less, at best in the other; B is what the loader's workers need per step. Of calls that make whole updates and return when these are
    made, r has what the first call of a new graph takes besides tracing it: 0.9 times what tracing took, as it was measured (nothing at
    worst, 1.5 times at best), but no more than they take beyond calls that trace nothing, or beyond what their operations take anyway.
When it is wrong:
    The first steps of a training must compile: a trace taken there shows what later steps do not have. Compiling in one step of few says
    little about all; then the lower end of the share is near nothing. Kernels that a library loads at their first use are left out. A
    recording in which shapes are met for the first time throughout says nothing of a longer training that has met them all. Next to a
    device that works by itself compiling may cost nothing: it counts where the device was seen to idle meanwhile, or was not asked.
What to try:
    What changed from trace to trace says it, where that is known: the same shapes in every step, or shapes that are declared to change; an
    array in the place of a Python value; a function that is compiled once. And a trace with a longer warm-up.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.device.charged import CHARGED
from slowstep.analyses.events.parts import FORWARD, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_COMPILATION
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import compiling
from slowstep.diagnosis.evidence.compute.retraced import retrace_evidence, retrace_fixes, retraces_of
from slowstep.diagnosis.evidence.device.kernel_side import gaps_share
from slowstep.diagnosis.evidence.profiled.host_calls import place
from slowstep.diagnosis.evidence.profiled.marked_steps import by_step, claims_of, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import no_device, one_step_only, with_stacks
from slowstep.diagnosis.evidence.trainer_side import concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.law import UNJUDGED_STAGE
from slowstep.diagnosis.provider import Details, HeldTime, Provided, Provider, Unsure
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Rule, judge_provided
from slowstep.findings import Evidence, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import part_name_and_place
from slowstep.parts import UPDATES, Part, PartKind, PieceKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "recompilation"
# As hooks tell of it.
KINDS = (PartKind.COMPILATION, PartKind.COMPILING)
# What goes on is compiled in so many steps of all. In fewer it may be new models (a fold, a search), data sets or shapes, each of which
# needs it once, and two of them tell nothing. Both are assumed.
OFTEN = 1 / 50
FEWEST_STEPS = 3
# In the second half of the window in so many of the steps of the first, or fewer: shapes that are met for the first time get rare. Assumed.
RARER = 0.5
# So many steps in which nothing is compiled tell what a call takes then.
FEWEST_OTHERS = 10
MAKE_ONCE = "make models, data sets and compiled functions once, before the loop, or record longer"
# Of these kinds of rows at least one must be there for a range that compiles to be seen.
SHOWN_BY = frozenset({"operators", "annotations", "python"})

COMPILED_SELDOM = Wording(
    "compiled-seldom",
    "something is compiled in {steps} of {all} steps, as each new model, data set or shape needs once",
)
COMPILED_LESS_OFTEN = Wording(
    "compiled-less-often",
    "something is compiled in {before} steps of the first half and in {after} of the second: it may be needed once for each shape",
)
COMPILING_NOT_SHOWN = Wording("compiling-not-traced", "the trace shows nothing of the host by which compiling could be seen: {remedy}")


def judge(m: Measurements) -> Answer:
    """Whether compiling holds the steps."""
    return judge_provided(m, NAME, PROVIDERS)


def _by_calls(m: Measurements) -> Provided:
    """What the compilers' calls hold, which hooks see, in all of the window and in its second half."""
    parts = m.ledger.parts_of("compute", *KINDS)
    ns = m.ledger.of_parts(*parts)
    share, low, high = share_interval(m, ns)
    first, second = (_rate(ns[half], m.step_ns[half]) for half in (slice(None, m.steps.count // 2), slice(m.steps.count // 2, None)))
    if share < CLAIM or second < CLAIM:
        return None
    compiled = ns >= CLAIM * m.step_ns.mean()
    missing = _may_end(m, compiled)
    if missing is not None:
        return Unsure(reason=missing, change=MAKE_ONCE) if share >= UNJUDGED_STAGE else None
    details = partial(_of_calls, m, ns, share, (first, second), int(compiled.sum()))
    return HeldTime(share=share, low=low, high=high, at_least=CLAIM, details=details)


def _of_calls(m: Measurements, ns: Floats, share: float, halves: tuple[float, float], steps: int) -> Details:
    parts = m.ledger.parts_of("compute", *KINDS)
    largest, counterfactual = max(parts, key=m.ledger.total_of), _without(m, ns, sorted(halves))
    changes = retraces_of(m, largest.name)
    return Details(
        stage="compute",
        title=f"{format_share(share)} of the time is compiling{_what(largest)}, in {steps} of {m.steps.count} steps",
        claims=parts,
        evidence=(
            Evidence(name="compiling", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="steps in which something is compiled", value=steps, unit="steps", threshold=OFTEN * m.steps.count),
            Evidence(name="compiling in the second half", value=halves[1], unit="share of its time", threshold=CLAIM),
            *retrace_evidence(changes),
            saved_by(m, counterfactual),
        ),
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=retrace_fixes(m, changes),
        names_cause=largest.kind is PartKind.COMPILATION,
    )


def _may_end(m: Measurements, compiled: NDArray[np.bool_]) -> Reason | None:
    """Why what was compiled may have been needed once, or not be any more in a longer training; None where it goes on."""
    steps, half = int(compiled.sum()), m.steps.count // 2
    if steps < max(OFTEN * m.steps.count, FEWEST_STEPS):
        return COMPILED_SELDOM(steps=steps, all=m.steps.count)
    before, after = int(compiled[:half].sum()), int(compiled[half:].sum())
    return COMPILED_LESS_OFTEN(before=before, after=after) if after < RARER * before else None


def _rate(ns: Floats, step_ns: Floats) -> float:
    """Share of the time of some steps."""
    return float(ns.sum()) / max(float(step_ns.sum()), 1.0)


def _without(m: Measurements, ns: Floats, rates: list[float]) -> Counterfactual:
    """Nothing is compiled any more: of the time what it took in that half of the window in which it took less, at best in the other."""
    needed_ns, mean = concurrent_producers_ns(m), _rate(ns, m.step_ns)
    expected, (least, most) = compiling.FIRST_CALL.value, compiling.FIRST_CALL.bounds

    def case(rate: float, times: float) -> Case:
        return Case(removed_ns=(ns + _of_first_calls(m, ns, times)) * (rate / mean), concurrent_ns=needed_ns)

    return Counterfactual(
        assumes="nothing were compiled any more after the first steps",
        expected=case(rates[0], expected),
        pessimistic=case(rates[0], least),
        optimistic=case(rates[1], most),
    )


def _of_first_calls(m: Measurements, ns: Floats, times: float) -> Floats:
    """What calls that make whole updates take longer because their graph is new, beside the `ns` of tracing it: at most so many `times`
    that, and what they take beyond calls that trace nothing.
    """
    calls_ns = m.ledger.of_parts(UPDATES)
    if m.trainer.is_asynchronous or not calls_ns.any():
        return np.zeros_like(ns)
    others = calls_ns[ns < CLAIM * m.step_ns.mean()]
    # Where all trace: what a step takes however small it is, and however old its graph.
    cost = m.compute.fixed_cost
    fixed_ns = cost.low_ns if cost.likely_ns is None else cost.likely_ns
    left_ns = float(np.median(others)) if others.size >= FEWEST_OTHERS else fixed_ns
    return np.minimum(times * ns, np.maximum(calls_ns - left_ns, 0.0))


def _what(largest: Part) -> str:
    """The function that takes most of it; of torch.compile none is told."""
    return f", most of it {part_name_and_place(largest)}" if largest.kind is PartKind.COMPILATION else ""


def _by_ranges(m: Measurements) -> Provided:
    """What named ranges hold in which compilers are at work while the device has nothing to do."""
    missing = no_device(m) or _not_shown(m)
    if missing is not None:
        return Unsure(reason=missing)
    found = m.device.compilations
    share, low, high = share_of_steps(m, by_step(m, found["step"], found["exposed_ns"]))
    once = one_step_only(m)
    unsure = None if once is None else Unsure(reason=once)
    return HeldTime(share=share, low=low, high=high, at_least=CLAIM, details=partial(_of_ranges, m, found, share), unsure=unsure)


def _of_ranges(m: Measurements, found: pl.DataFrame, share: float) -> Details:
    sites = found.group_by("name", "where", maintain_order=True).agg(pl.len().alias("count"), pl.col("exposed_ns").sum())
    sites = sites.sort("exposed_ns", descending=True)
    worst = place(sites["name"][0], sites["where"][0])
    steps = found["step"].n_unique()
    counterfactual = Replayed(NO_COMPILATION, assumes="everything had been compiled before the first of these steps")
    return Details(
        stage=_stage(found),
        title=f"{format_share(share)} of the time is compiling, in {steps} of {m.steps.count} steps ({worst})",
        claims=_claims(m, found),
        evidence=_evidence_of_sites(m, sites, steps, share, counterfactual),
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=_fixes(m, with_stacks(m, found["where"].to_list())),
        names_cause=True,
    )


def _evidence_of_sites(m: Measurements, sites: pl.DataFrame, steps: int, share: float, counterfactual: Replayed) -> tuple[Evidence, ...]:
    return (
        Evidence(name="compiling", value=share, unit="share of window", threshold=CLAIM),
        *(_row(m, site) for site in sites.head(3).iter_rows(named=True)),
        Evidence(name="steps in which something is compiled", value=steps, unit="steps"),
        steps_seen(m),
        saved_by(m, counterfactual),
    )


def _not_shown(m: Measurements) -> Reason | None:
    if m.facts.recorded & SHOWN_BY or m.device.compilations.height or (m.device.seen and gaps_share(m) < CLAIM):
        return None
    return COMPILING_NOT_SHOWN(remedy=m.training.words.advise(Remedy.RECORD_COMPILING))


def _claims(m: Measurements, found: pl.DataFrame) -> tuple[Part, ...]:
    """The parts that it was charged to; without a device the forward, in which functions are called for the first time."""
    return claims_of(m, found, PieceKind.COMPILING, "exposed_ns", CHARGED) or (piece(FORWARD, PieceKind.COMPILING),)


def _stage(found: pl.DataFrame) -> str:
    """The stage of the part that most of it was charged to; where no device waited, the forward's."""
    charged = found.drop_nulls("charged_stage").group_by(CHARGED).agg(pl.col("exposed_ns").sum())
    charged = charged.sort("exposed_ns", *CHARGED, descending=[True, *(False for _ in CHARGED)])
    return str(charged["charged_stage"][0]) if charged.height else "compute"


def _row(m: Measurements, site: dict[str, Any]) -> Evidence:
    share = site["exposed_ns"] / max(m.steps.length_ns, 1)
    return Evidence(name=f"{site['name']}, {site['count']} times", value=share, unit="share of window", where=site["where"])


def _fixes(m: Measurements, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    return (
        Fix(text=f"{words.advise(Remedy.SAME_SHAPES)}{unknown}"),
        Fix(text=words.advise(Remedy.DECLARE_SHAPES)),
        Fix(text=f"if these are the first steps, take the trace later: {words.advise(Remedy.RECORD_LATER)}"),
    )


PROVIDERS = (
    Provider(topics=("device", "facts", "marks", "replay"), find=_by_ranges),
    Provider(topics=("compute", "input", "machine", "over_time", "trainer"), find=_by_calls),
)
RULE = Rule(name=NAME, stages=("compute", "d2h"), topics=("ledger", "steps", "training"), providers=PROVIDERS, judge=judge)
