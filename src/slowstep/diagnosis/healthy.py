"""Whether a training without a bottleneck can be called healthy, and what would tell where that is not known."""

from __future__ import annotations

import numpy as np

from slowstep.analyses.ledger import CORE, Part
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.gain import Case, Counterfactual, predict
from slowstep.diagnosis.law import (
    BOTTLENECK_PREDICTED,
    HEALTHY_SHARE_OF_UNKNOWN_GAIN,
    HEALTHY_UNATTRIBUTED,
    UNJUDGED_STAGE,
    rules,
)
from slowstep.diagnosis.lever_specs import MOCK_LOADER, threads
from slowstep.diagnosis.rule import Judged
from slowstep.findings import Finding, NotJudged
from slowstep.stages import STAGES, UNATTRIBUTED

# No rule judges this stage yet, so the same share as of a stage whose rules could not judge.
HEALTHY_SHARING = UNJUDGED_STAGE

INPUT = ("read", "preprocess")
MOST_OF_INPUT = f"slowstep prove --levers {MOCK_LOADER} tells the most that faster input can gain"
NAME_IT = "wrap the loop's input in slowstep.steps(), or name stretches by slowstep.span()"


def not_healthy(m: Measurements, leading: list[Judged], uncertain: list[Judged], unjudged: list[NotJudged]) -> str | None:
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
    unknown = next(iter(_of_unknown_gain(leading)), None)
    if unknown is not None:
        return (
            f"undetermined, because what fixing {unknown.rule} would gain is not known ({unknown.share:.0%} of the time); try its first fix"
        )
    for doubtful in (j.finding for j in uncertain if (j.finding.gain.predicted or 0.0) >= BOTTLENECK_PREDICTED):
        spread = f"{doubtful.share_low:.0%} to {doubtful.share_high:.0%} of the time"
        return f"undetermined, because {doubtful.rule} may concern {spread}; record more of it: several epochs or checkpoints"
    unclaimed = _unclaimed_input(m, [*leading, *uncertain])
    doubted = _doubted(m, unjudged, unclaimed)
    if doubted:
        return f"undetermined, because {doubted[0].rule} could not be judged: {doubted[0].reason}"
    queued = _unclaimed_queue(m, [*leading, *uncertain]) or 0.0
    if unclaimed is not None and m.ledger.share(*unclaimed) >= queued:
        stage, name = unclaimed
        what = f"{m.ledger.share(stage, name):.0%} of the time is {name} ({stage}), and no rule found a fix that gains"
        return f"undetermined, because {what}; {NAME_IT if m.loader is None else MOST_OF_INPUT}"
    if queued:
        beside = "its own workers" if _has_workers(m) else "its own other threads and processes"
        what = f"{queued:.0%} of the time the training thread waits for a core beside {beside}, and no rule found a fix that gains"
        fewer = f"slowstep prove --levers {threads(1)} tells more" if (m.machine.threads or 1) > 1 else "look at what else the script runs"
        return f"undetermined, because {what}; {MOST_OF_INPUT if _has_workers(m) else fewer}"
    return None


def telling(m: Measurements, leading: list[Judged], uncertain: list[Judged], unjudged: list[NotJudged]) -> str | None:
    """The lever that would tell what leaves the verdict undetermined: a gain that is not known, what no rule could judge or explain."""
    unclaimed = _unclaimed_input(m, [*leading, *uncertain])
    levers = [fix.lever for finding in _of_unknown_gain(leading) for fix in finding.fixes]
    levers += [skipped.lever for skipped in _doubted(m, unjudged, unclaimed)]
    levers += [MOCK_LOADER] if unclaimed is not None and m.loader is not None else []
    if _unclaimed_queue(m, [*leading, *uncertain]) is not None:
        levers.append(MOCK_LOADER if _has_workers(m) else threads(1) if (m.machine.threads or 1) > 1 else None)
    return next((lever for lever in levers if lever is not None), None)


def _of_unknown_gain(leading: list[Judged]) -> list[Finding]:
    """Findings that could gain a tenth by their share, and nobody knows."""
    findings = [j.finding for j in leading]
    return [finding for finding in findings if finding.gain.predicted is None and finding.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN]


def _doubted(m: Measurements, unjudged: list[NotJudged], unclaimed: Part | None) -> list[NotJudged]:
    """The rules that could not judge a stage which holds a tenth; only those of the `unclaimed` input where there is such."""

    def matters(skipped: NotJudged) -> bool:
        stages = rules()[skipped.rule].stages
        return max(map(m.ledger.share, stages)) >= UNJUDGED_STAGE and (unclaimed is None or unclaimed[0] in stages)

    return [skipped for skipped in unjudged if not skipped.advisory and matters(skipped)]


def _unclaimed_input(m: Measurements, judged: list[Judged]) -> Part | None:
    """The largest part of waiting for input that no finding claims, where its share is worth a verdict; None where there is none."""
    claimed = {name for j in judged for name in j.finding.claims}
    parts = [part for part in m.ledger.parts if part[0] in INPUT and part[1] != CORE and part[1] not in claimed]
    largest = max(parts, key=lambda part: m.ledger.share(*part), default=None)
    return largest if largest is not None and m.ledger.share(*largest) >= HEALTHY_UNATTRIBUTED else None


def _unclaimed_queue(m: Measurements, judged: list[Judged]) -> float | None:
    """The share of waiting for a core that no finding claims, where it is worth a verdict; None where not, or others use the cores."""
    share = sum(m.ledger.share(stage, CORE) for stage in (*STAGES, UNATTRIBUTED))
    is_claimed = any(CORE in j.finding.claims for j in judged)
    return share if share >= HEALTHY_UNATTRIBUTED and not is_claimed and not m.load.busy else None


def _has_workers(m: Measurements) -> bool:
    return m.loader is not None and m.loader.num_workers > 0


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
