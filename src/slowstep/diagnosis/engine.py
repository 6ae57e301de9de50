"""Runs every rule, lets findings of one cause fold into one, and draws the verdict."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.ledger import CORE, Part
from slowstep.analyses.load import BUSY_FROM
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.gain import Case, Counterfactual, predict
from slowstep.diagnosis.law import (
    BOTTLENECK_PREDICTED,
    HEALTHY_SHARE_OF_UNKNOWN_GAIN,
    HEALTHY_UNATTRIBUTED,
    UNJUDGED_STAGE,
    Diagnosis,
    Next,
    is_bottleneck,
    larger_unknown,
    rules,
    sort_answers,
)
from slowstep.diagnosis.rule import Judged
from slowstep.findings import NotJudged, Verdict
from slowstep.stages import STAGES, UNATTRIBUTED

# No rule judges this stage yet, so the same share as of a stage whose rules could not judge.
HEALTHY_SHARING = UNJUDGED_STAGE
STEPS_AT_LEAST = 30

INPUT = ("read", "preprocess")
NAME_IT = "wrap the loop's input in slowstep.steps(), or name stretches by slowstep.span()"


def diagnose(m: Measurements) -> Diagnosis:
    """Judge the measurements by every rule and draw the verdict."""
    answers = sort_answers((rule, rule.judge(m)) for rule in rules().values() if rule.judge is not None)
    leading = answers.leading
    return Diagnosis(
        findings=answers.findings,
        not_judged=tuple(answers.unjudged),
        verdict=_verdict(m, leading, answers.uncertain, answers.unjudged),
        next=_next(m, leading[0]) if leading else None,
    )


def _verdict(m: Measurements, leading: list[Judged], uncertain: list[Judged], unjudged: list[NotJudged]) -> Verdict:
    largest = _largest_stage(m)
    doubt = _doubt(m)
    first = next((j.finding for j in leading if is_bottleneck(j.finding)), None)
    if doubt is not None:
        return Verdict(state="undetermined", stage=largest, healthy=None, rule=None, summary=doubt)
    larger = None if first is None else larger_unknown(m.ledger.share(UNATTRIBUTED), first, m.ledger.share(first.stage))
    if larger is not None:
        summary = f"undetermined, because {larger}; {NAME_IT}"
        return Verdict(state="undetermined", stage=largest, healthy=None, rule=None, summary=summary)
    if first is not None:
        return Verdict(state="bottleneck", stage=first.stage, healthy=False, rule=first.rule, summary=first.title)
    why = _not_healthy(m, leading, uncertain, unjudged)
    if why is not None:
        return Verdict(state="undetermined", stage=largest, healthy=None, rule=None, summary=why)
    share = m.ledger.share(largest)
    summary = f"no rule found anything worth 10 %: {share:.0%} of the time is {largest}, the training's own work"
    return Verdict(state="healthy", stage=largest, healthy=True, rule=None, summary=summary)


def _doubt(m: Measurements) -> str | None:
    if m.device != "cpu":
        where = f"the model trains on {m.device}, whose work this version cannot see: it charges the training thread only"
        return f"undetermined, because {where}; look at the waits for input, which are right, and trace the rest with torch.profiler"
    if m.sharing.slower is not None:
        rank, own_ns = m.sharing.slower
        pace = f"{own_ns / 1e6:.1f} ms per step against {float(m.sharing.own_ns.mean()) / 1e6:.1f} here"
        return f"undetermined, because this rank waits for rank {rank}, whose own work takes {pace}: look at the report of that one"
    if m.steps.count < STEPS_AT_LEAST:
        enough = STEPS_AT_LEAST + 10
        return f"undetermined, because only {m.steps.count} steps were recorded after warm-up; let it run for at least {enough} steps"
    return None


def _not_healthy(m: Measurements, leading: list[Judged], uncertain: list[Judged], unjudged: list[NotJudged]) -> str | None:
    """Why the training cannot be called healthy though no single finding is a bottleneck; None where it can."""
    unattributed = m.ledger.share(UNATTRIBUTED)
    if unattributed >= HEALTHY_UNATTRIBUTED:
        return f"undetermined, because {unattributed:.0%} of the time could not be attributed; {NAME_IT}"
    if m.between_forwards_share >= HEALTHY_UNATTRIBUTED:
        what = f"{m.between_forwards_share:.0%} of the time lies between a step's forwards, and what runs there is not known"
        return f"undetermined, because {what} (an environment, sampling?); name it: with slowstep.span('environment', stage='preprocess')"
    if m.sharing.ranks > 1 and not m.sharing.seen:
        return "undetermined, because what this rank waits for the others was not measured (the kernel shows no run-queue delay)"
    shared = m.ledger.share("gradient_sharing")
    if shared >= HEALTHY_SHARING and m.sharing.apart:
        own = f"than {float(m.sharing.own_ns.mean()) / 1e6:.1f} ms per step, this one's"
        what = f"{shared:.0%} of the time goes into sharing gradients and waiting for other ranks, which are recorded apart"
        return f"undetermined, because {what}: look in their reports for one whose own work takes longer {own}"
    if shared >= HEALTHY_SHARING:
        what = f"{shared:.0%} of the time goes into sharing gradients and waiting for other ranks, which no rule judges yet"
        return f"undetermined, because {what}; try fewer, larger exchanges: gradient accumulation under no_sync()"
    before = m.before_update
    if before is not None and before.share >= HEALTHY_UNATTRIBUTED:
        what = f"{before.name}, between backward and update, takes {before.share:.0%} of the time"
        return f"undetermined, because {what}, and whether the training needs it in every step is not known; try it every k steps"
    together = combined_gain(m, leading)
    if together >= BOTTLENECK_PREDICTED:
        if leading and (leading[0].finding.gain.predicted or 0.0) >= BOTTLENECK_PREDICTED:
            gain = leading[0].finding.gain.predicted
            return f"undetermined, because the first finding's gain ({gain:.2f}x) may be nothing; record more steps, on a quieter machine"
        return f"undetermined, because no finding alone reaches 10 %, but all together predict {together:.2f}x; see the findings"
    unknown = next((f for f in (j.finding for j in leading) if f.gain.predicted is None and f.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN), None)
    if unknown is not None:
        return (
            f"undetermined, because what fixing {unknown.rule} would gain is not known ({unknown.share:.0%} of the time); try its first fix"
        )
    for doubtful in (j.finding for j in uncertain if (j.finding.gain.predicted or 0.0) >= BOTTLENECK_PREDICTED):
        spread = f"{doubtful.share_low:.0%} to {doubtful.share_high:.0%} of the time"
        return f"undetermined, because {doubtful.rule} may concern {spread}; record more of it: several epochs or checkpoints"
    unclaimed = _unclaimed_input(m, [*leading, *uncertain])
    doubted = [skipped for skipped in unjudged if not skipped.advisory and _shares(m, skipped) >= UNJUDGED_STAGE]
    if unclaimed is not None:
        doubted = [skipped for skipped in doubted if unclaimed[0] in rules()[skipped.rule].stages]
    if doubted:
        return f"undetermined, because {doubted[0].rule} could not be judged: {doubted[0].reason}"
    if unclaimed is not None:
        stage, name = unclaimed
        what = f"{m.ledger.share(stage, name):.0%} of the time is {name} ({stage}), and no rule found a fix that gains"
        return f"undetermined, because {what}; slowstep prove --levers mock-loader tells the most that faster input can gain"
    return None


def _shares(m: Measurements, skipped: NotJudged) -> float:
    """The share of the largest stage that a rule may blame."""
    return max(m.ledger.share(stage) for stage in rules()[skipped.rule].stages)


def _unclaimed_input(m: Measurements, judged: list[Judged]) -> Part | None:
    """The largest part of waiting for input that no finding claims, where its share is worth a verdict; None where there is none."""
    claimed = {name for j in judged for name in j.finding.claims}
    parts = [part for part in m.ledger.parts if part[0] in INPUT and part[1] != CORE and part[1] not in claimed]
    largest = max(parts, key=lambda part: m.ledger.share(*part), default=None)
    return largest if largest is not None and m.ledger.share(*largest) >= HEALTHY_UNATTRIBUTED else None


def combined_gain(m: Measurements, leading: list[Judged]) -> float:
    """The gain of all findings together; their claims do not overlap, so what they remove adds up."""
    known = [j.counterfactual for j in leading if j.counterfactual is not None]
    plain = [c for c in known if c.samples_ratio == 1.0]
    resized = [predict(m, c).predicted or 1.0 for c in known if c.samples_ratio != 1.0]
    if not plain:
        return max(resized, default=1.0)
    removed = np.sum([c.expected.removed_ns for c in plain], axis=0)
    case = Case(removed_ns=removed, beside_ns=min(c.expected.beside_ns for c in plain))
    everything = Counterfactual(assumes="all findings fixed", expected=case, worse=case, better=case)
    return max([predict(m, everything).predicted or 1.0, *resized])


def _largest_stage(m: Measurements) -> str:
    return max(STAGES, key=m.ledger.share)


def _next(m: Measurements, first: Judged) -> Next | None:
    """The stage whose demand is B; the training thread's largest remaining stage where that is larger. None for an unknown gain."""
    if first.counterfactual is None:
        return None
    case = first.counterfactual.expected
    rest = float(m.step_ns.mean() - case.removed_ns.mean())
    if case.beside_ns > rest:
        blocked = m.demand.blocked_share is not None and m.demand.blocked_share > 0.5
        return Next(stage="read" if blocked else "preprocess", predicted=f"making batches, {case.beside_ns / 1e6:.1f} ms per step")
    left: dict[str, float] = {stage: float(m.ledger.of(stage).mean()) for stage in STAGES}
    removed = float(case.removed_ns.mean())
    held: dict[str, float] = {stage: float(m.ledger.of(stage, *first.finding.claims).mean()) for stage in STAGES}
    for name, share in held.items():
        left[name] = max(left[name] - removed * share / max(sum(held.values()), 1.0), 0.0)
    stage = max(left, key=lambda s: left[s])
    ratio = first.counterfactual.samples_ratio
    larger = "" if ratio == 1.0 else f" of {ratio:.3g} times the samples"
    return Next(stage=stage, predicted=f"{stage}, {left[stage] / 1e6:.1f} of {rest / 1e6:.1f} ms per step{larger}")


def busy_note(m: Measurements) -> str | None:
    """What is said where others use the machine; None on a quiet one."""
    if not m.load.busy:
        return None
    taken = f"{m.load.foreign_cores:.1f} of {m.load.cores} cores"
    return f"the machine is busy: others use {taken} (times are doubtful from {BUSY_FROM:.0%} on); repeat on a quieter machine"
