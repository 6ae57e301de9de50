"""Every so many steps one is longer, and nothing recorded says why.

What it sees:
    Step lengths without their known events (validation, checkpoints, epoch changes): the same phase of a period holds the longest step in
    at least 70 % of six periods or more, which happens by chance in under 1 % of trainings. It must hold at least 3 % of the window.
Why it costs:
    A stall that recurs is paid all along though the usual step is fast; a median hides it.
How the gain is predicted:
    r is what those steps take beyond the usual one. B is what the loader's workers need per step.
When it is wrong:
    What happens every so many seconds, and not steps, is only found where steps are even. Waits for input that recur (every
    num_workers-th step, where workers cannot keep up) are left to the rules about input, as is what is built for the loader between epochs,
    and a forward or a backward that is longer every num_workers-th step: the workers compute meanwhile. Roll-outs have a name. Work of the
    models in steps in which another optimizer updates too (a generator's, once for five updates of its critic) is that network's turn. A
    forward and a backward that are longer together, in steps whose graph holds more values (a larger picture now and then, another loss),
    have more to compute: up to the square of these nothing is blamed. Where no graph of such a step was seen, this is not judged.
What to try:
    Look for what the loop does every so many steps: logging, a garbage collection, a scheduler, a queue that is emptied. Name it with
    slowstep.span(), and record again.
"""

from __future__ import annotations

from slowstep.analyses.batches.producers import PART_STAGE
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.part_words import part_in_words
from slowstep.parts import MODELS, Part, PartKind
from slowstep.reasons import Wording
from slowstep.stages import STAGES
from slowstep.units import format_duration

NAME = "periodic-stall"

MAYBE_LARGER_INPUT = Wording(
    "maybe-larger-input",
    "every {every} steps forward and backward take {ms:.0f} ms longer together, as with a larger input, and how large it is was not seen; "
    "see what that step is given",
)


def judge(m: Measurements) -> Answer:
    """Whether something unknown recurs."""
    unknown = [event for event in m.over_time.events if not event.known and _is_own(m, event.part) and not _is_beside_workers(m, event)]
    if not unknown:
        return None
    event = max(unknown, key=lambda e: float(e.ns.sum()))
    share, low, high = share_interval(m, event.ns)
    if share < CLAIM:
        return None
    every = round(event.every_steps or 0)
    if event.maybe_larger:
        return NotJudged(rule=NAME, reason=MAYBE_LARGER_INPUT(every=every, ms=event.each_ns / 1e6))
    beside = concurrent_producers_ns(m, spared_cpu_ns=float(event.ns.mean()))
    case = Case(removed_ns=event.ns, concurrent_ns=beside)
    pessimistic = Case(removed_ns=event.ns, concurrent_ns=PESSIMISTIC_BESIDE * beside)
    counterfactual = Counterfactual(
        assumes="those steps were as long as the others", expected=case, pessimistic=pessimistic, optimistic=case
    )
    finding = Finding(
        rule=NAME,
        stage=event.part.stage,
        title=f"every {every} steps one takes {format_duration(event.each_ns)} longer, most of it in: {part_in_words(event.part)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(event.part,),
        evidence=_evidence(m, event, every, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=(Fix(text=f"look for what the loop does every {every} steps; name it with slowstep.span() and record again"),),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, event: OccasionalEvent, every: int, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="period", value=every, unit="steps"),
        Evidence(name="times", value=event.count, unit="in the window"),
        Evidence(name="longer by", value=event.each_ns / 1e6, unit="ms"),
        Evidence(name="part that grows most then", value=part_in_words(event.part), unit="", where=event.part.stage),
        Evidence(name="stalls", value=share, unit="share of window", threshold=CLAIM),
        saved_by(m, counterfactual),
    )


def _is_own(m: Measurements, part: Part) -> bool:
    """Whether it is the training thread's own doing: waits for input, roll-outs, and what is built for a loader have rules of their own."""
    if m.input.rebuilt is not None and part in m.input.rebuilt.parts:
        return False
    return part.stage in STAGES and PART_STAGE.get(part.kind) != part.stage and part.kind is not PartKind.ROLL_OUT


def _is_beside_workers(m: Measurements, event: OccasionalEvent) -> bool:
    """Whether it is the model's own work that takes longer whenever all workers have made a batch, begin the next ones, or are forked."""
    workers, restarts = 0 if m.input.loader is None else m.input.loader.num_workers, m.over_time.restarts
    # After a fork the model's memory is copied page by page: `worker-restart` counts that.
    each = restarts.batches_each if restarts.forks_per_step else None
    periods = {workers if workers > 1 else None, None if each is None else round(each)} - {None}
    return event.part in MODELS and round(event.every_steps or 0) in periods


RULE = Rule(name=NAME, stages=STAGES, topics=("compute", "input", "ledger", "machine", "over_time", "steps"), judge=judge)
