"""Preprocessing takes all cores, so more workers cannot help.

What it sees:
    A loader feeds the training; the CPU time of training and of making batches per step, divided by the cores that the process may use, is
    at least a tenth more than what the training thread needs alone; making batches computes rather than waits; and there are as many
    workers as cores, or more would save under 5 % of the step (of a loader without workers: any would, as on a single core). Waiting for
    batches and, where the workers take the training thread's cores away from it, its waiting for a core together hold at least 5 % of the
    window.
Why it costs:
    A core does one thing at a time. Once all are busy, another worker only takes time from the others and from the training itself.
How the gain is predicted:
    r is the wait for batches and the workers' part of the training thread's wait for a core. B is the CPU time of training and workers
    divided by the cores, or what each worker computes and waits for a core, when preprocessing takes half of both; three quarters at worst,
    nothing at best. Where the training
    thread makes the batches itself, r is that share of making them.
When it is wrong:
    Work of other processes on these cores is no fault of the preprocessing: what they take is left out of r in proportion, but only on
    average. Hyper-threads count as cores, and give less.
What to try:
    Do once and store what is the same every epoch; decode at the size that is used; faster libraries; augment whole batches.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.core_demand import BINDS, CoreDemand, core_bound_case, core_demand
from slowstep.diagnosis.evidence.input.input_causes import Spared, more_workers_help, most_of_making, place, sparing
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, InputSide, claims, find_side
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import mock_loader
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.reasons import Reason
from slowstep.shares import MOSTLY
from slowstep.units import format_duration

NAME = "preprocess-saturates-cpu"
# Workers that are blocked for longer than they compute wait for something else than cores.
BLOCKED_AT_MOST = 0.5
LEFT, LEFT_PESSIMISTIC = 0.5, 0.75
SHOWN = 3


def judge(m: Measurements) -> Answer:
    """Whether the cores are used up by preprocessing."""
    side = find_side(m)
    if m.input.loader is None or isinstance(side, Reason):
        return None
    cores, workers = core_demand(m, side), m.input.loader.num_workers
    if not cores.binds or (m.input.demand.blocked_share or 0.0) > BLOCKED_AT_MOST:
        return None
    if workers < int(side.cores) and more_workers_help(m, side):
        return None
    removed = side.removable_ns + cores.lost_ns
    share, low, high = share_interval(m, removed)
    if share < WAIT_SHARE:
        return None
    counterfactual = _counterfactual(m, side, cores, workers)
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"preprocessing takes {format_duration(side.cpu_ns)} of CPU time per step: {_full(side.cores)}, workers do not help",
        share=share,
        share_low=low,
        share_high=high,
        claims=(*claims(m), *cores.claims),
        evidence=(
            # First, since four rows are shown: it is what is to be changed.
            *(_heaviest(m) or most_of_making(m)),
            *_full_cores(side, cores, workers),
            Evidence(name="waiting for batches and cores", value=share, unit="share of window", threshold=WAIT_SHARE),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(
                text="halve the work per sample: store what is the same every epoch, at the size that is used; use faster libraries",
                bounded_by=mock_loader(m),
            ),
            Fix(text="do per-sample work on whole batches, in the training process or on the accelerator", bounded_by=mock_loader(m)),
        ),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _full_cores(side: InputSide, cores: CoreDemand, workers: int) -> tuple[Evidence, ...]:
    """What is asked of the cores, against what they give."""
    given_ms = BINDS * cores.alone_ns / 1e6
    return (
        Evidence(name="CPU time needed", value=cores.needed_ns / 1e6, unit="ms per step on all cores", threshold=given_ms),
        Evidence(name="preprocessing", value=side.cpu_ns / 1e6, unit="ms of CPU time per step"),
        Evidence(name="workers", value=workers, unit="workers", threshold=int(side.cores)),
    )


def _full(cores: float) -> str:
    return f"{cores:.0f} cores are full" if round(cores) > 1 else "the only core is full"


def _counterfactual(m: Measurements, side: InputSide, cores: CoreDemand, workers: int) -> Counterfactual:
    words = "preprocessing took half of its CPU time"
    if not workers:
        return sparing(m, side, Spared(expected=1 - LEFT, pessimistic=1 - LEFT_PESSIMISTIC, optimistic=1.0), words)

    def case(left: float) -> Case:
        # Who computes half as long is kept from it half as long.
        return core_bound_case(side, cores, left * side.cpu_ns, workers, left * side.delay_ns)

    return Counterfactual(assumes=words, expected=case(LEFT), pessimistic=case(LEFT_PESSIMISTIC), optimistic=case(0.0))


def _heaviest(m: Measurements) -> tuple[Evidence, ...]:
    """The user's functions that hold most of the making: the innermost that holds half of it or more, and those that hold less."""
    # A function that holds as much of the making is named before those that it calls.
    innermost = m.input.facts.around(MOSTLY)
    less = [f for f in m.input.facts.functions if f.is_users and f.share < MOSTLY]
    shown = [innermost, *less] if innermost is not None else less
    return tuple(Evidence(name=f.name, value=f.share, unit="share of making a batch", where=place(m, f)) for f in shown[:SHOWN])


RULE = Rule(name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "steps", "trainer"), judge=judge)
