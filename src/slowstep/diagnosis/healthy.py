"""Whether a training without a bottleneck can be called healthy, and what would tell where that is not known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from slowstep.analyses.after_update.gaps import FORWARD
from slowstep.analyses.compute.blocked import Blocked
from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.loop_side import NAME_ENVIRONMENT
from slowstep.diagnosis.evidence.trainer_side import blocked_inside
from slowstep.diagnosis.evidence.unnamed import NAME_IT, NAME_WITHIN, RECORD_ALONE, how_to_name, name_by_hand
from slowstep.diagnosis.law import (
    FIRST_GAIN_MAY_BE_NONE,
    GAIN_NOT_KNOWN,
    HEALTHY_UNATTRIBUTED,
    RULE_NOT_JUDGED,
    UNATTRIBUTED_TIME,
    UNJUDGED_STAGE,
    WHOLE_STAGE,
    Answers,
    large_together,
    may_be_bottleneck,
    of_unknown_gain,
    rules,
)
from slowstep.diagnosis.lever_specs import MOCK_LOADER, is_marked, mock_loader, threads
from slowstep.diagnosis.made_levers import is_made
from slowstep.diagnosis.rule import CLAIM, Judged
from slowstep.diagnosis.viewpoint import Doubt
from slowstep.findings import Finding, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import part_in_words, part_name_and_place
from slowstep.parts import UPDATES, Part, PartKind
from slowstep.reasons import Value, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

# No rule judges this stage without a trace, so the same share as of a stage whose rules could not judge.
HEALTHY_SHARING = UNJUDGED_STAGE

INPUT = ("read", "preprocess")
MEASURE_INPUT = f"slowstep prove --levers {MOCK_LOADER} measures the most that faster input can gain"
# Of input that no lever changes.
REPEAT_ONE = "train on one batch that is repeated: how much faster that is, is the most that faster input can gain"
MEASURE_INPUT_ALONE = f"{MEASURE_INPUT}, of one process trained alone"
# It may be anything: an update by hand, sampling, what is played.
NAME_BETWEEN = (
    "name it: with slowstep.span(NAME, stage='compute') around what is the model's work (updates by hand, losses), "
    "stage='preprocess' around what makes its input (an environment)"
)
# No faster input shortens what the model itself plays or writes.
PLAY_LESS = (
    f"have the model play or write more at a time, or less (keys and values cached); where it is an environment's, {NAME_ENVIRONMENT}"
)

# Elements: written for all tensors of up to so many at once, an average took 0.12 to 0.4 of the time of a loop over them, clipping 0.4 to
# 1.3, noise 0.5 to 2.1; of larger ones not much less than the loop at best (torch 2.13 on a processor, one thread).
SMALL_TENSOR = 16_384
# What one layer may hold that nobody sees, unless it is no more than that: a fix of it would gain more than any other.
MOST_OF_STEP = 0.5
PROFILE_STEPS = "profile some steps by the framework's own profiler, which tells of its operations"
# What already calls operations for all tensors spends most of its time in those. Of Lion, in 40 tensors, lines that ran for each tensor
# took all of the time where it is a loop over them, 0.26 where it calls torch._foreach_* for all (torch 2.13, a recording of each).
BY_TENSOR = 0.5
OTHER_TRAININGS = Wording(
    "other-trainings",
    "{share:share} of the training time belongs to other trainings, before or after this one, which were not looked at: {remedy}",
)
BETWEEN_FORWARDS = Wording(
    "between-forwards", "{share:share} of the time lies between a step's forwards{beside}, and it is not known what runs there; {remedy}"
)
BESIDE_GRADIENTS = Wording("beside-gradients", " beside the computing of gradients ({share:share})")
ROLLED_OUT = Wording(
    "rolled-out",
    "{share:share} of the time is {part}, where stack samples cannot tell its models from an environment in Python; {remedy}",
)
WAITING_NOT_MEASURED = Wording(
    "waiting-not-measured",
    "how long this rank waits for the others was not measured (the kernel reports no run-queue delay)",
)
SHARING_WITH_OTHERS = Wording(
    "sharing-with-others",
    "{share:share} of the time goes into sharing gradients and waiting for other ranks, which are in recordings of their own: "
    "look in their reports for one whose own work takes longer than {own_ns:ms} ms per step, this one's",
)
OVERLAP_NOT_KNOWN = Wording(
    "overlap-not-known",
    "{share:share} of the time goes into sharing gradients and waiting for other ranks; how much of it could overlap with compute is "
    "not known; {remedy}",
)
BEFORE_UPDATE = Wording(
    "before-update",
    "{name}, between backward and update, takes {share:share} of the time, and it is not known whether every step needs it; "
    "try it every k steps",
)
OWN_UPDATE = Wording(
    "own-update",
    "{name}, an optimizer of the script's own, takes {share:share} of the time, most of it in {place}, for tensors of {elements:,} "
    "elements each, and it is not known what it takes for all of them at once; {remedy}",
)
HOOK_IN_BACKWARD = Wording(
    "hook-in-backward",
    "{name}, a hook on gradients inside backward, takes {share:share} of the time, by stacks, and it is not known whether every step "
    "needs it; try it every k steps, or without",
)
LINES_BEFORE_BACKWARD = Wording(
    "lines-before-backward",
    "{share:share} of the time is what the loop does before its backward, most of it in {most}, and it is not known where its input ends "
    "and its forward begins; {remedy}",
)
LINES_BESIDE_BACKWARD = Wording(
    "lines-beside-backward",
    "{share:share} of the time is what the loop itself does beside its backward, most of it in {most}, and it is not known how much of "
    "that is the update by hand; {remedy}",
)
FORWARD_BY_STACKS = Wording(
    "forward-by-stacks", "{share:share} of the time is {most}, which may stand for Python code that ran just before; {remedy}"
)
LINES_BY_STACKS = Wording(
    "lines-by-stacks",
    "{share:share} of the time is calls of the framework by {most}, by stacks, which may stand for Python code that ran just before; "
    "{remedy}",
)
BLOCKED_INSIDE = Wording(
    "blocked-inside",
    "for {share:share} of the time the training thread is blocked inside its steps{most}, and nothing computes for it: "
    "look for a sleep, a lock, a server or a file there",
)
BLOCKED_OR_QUEUED = Wording(
    "blocked-or-queued",
    "for {share:share} of the time the training thread waits inside its steps{most}: for the other {others} of its operations, which "
    "find no free core beside other processes, or for a sleep, a lock, a server or a file",
)
MOST_IN_LINE = Wording("most-in-line", ", most of it in {line}")
SHARE_TOO_WIDE = Wording(
    "share-too-wide",
    "{rule} takes {low:share} to {high:share} of the time, which is too wide a range; record more, such as several epochs or checkpoints",
)
NO_FIX_KNOWN = Wording("no-fix-known", "{share:share} of the time is {part} ({stage:stage}), and no fix is known that would gain; {remedy}")
COMPILED_STEP = Wording(
    "compiled-step",
    "{share:share} of the time is calls of the framework that make whole steps, and it is not known whether one of their operations takes "
    "most of it, nor what the threads that make the input take of the cores beside them; {remedy}",
)
WAITS_FOR_CORE = Wording(
    "waits-for-core",
    "{share:share} of the time the training thread waits for a core beside {whose}, and no fix is known that would gain; {remedy}",
)


def by_hand(what: Wording, remedy: str, **values: Value) -> Doubt:
    """The doubt that `what` raises where only a change of the script, or of how it is recorded, would tell more."""
    return Doubt(what(remedy=remedy, **values), change=remedy)


def not_healthy(m: Measurements, answers: Answers) -> Doubt | None:
    """Why the training cannot be called healthy though no single finding is a bottleneck; None where it can."""
    more = more_blocked(m, answers.leading[0].finding) if answers.leading else None
    return _unseen(m) or more or _of_findings(m, answers) or _of_blocking(m) or _of_unjudged(m, answers) or _of_compiled(m)


def more_blocked(m: Measurements, first: Finding) -> Doubt | None:
    """Why a finding about computing is not what holds the training up: for more of the time nobody computes. Else None."""
    blocked = blocked_inside(m)
    return _of_blocking(m) if first.stage == "compute" and blocked is not None and blocked.share > first.share else None


def _unseen(m: Measurements) -> Doubt | None:
    """Time of which it is not known what it is, or whether it is needed."""
    elsewhere = m.trainer.elsewhere
    # Those that are few enough are listed, the longest is judged: that it is one of several leaves nothing open.
    if elsewhere is not None and not elsewhere.trainings and elsewhere.unlike_share >= HEALTHY_UNATTRIBUTED:
        return by_hand(OTHER_TRAININGS, RECORD_ALONE, share=elsewhere.unlike_share)
    unattributed = m.ledger.share(UNATTRIBUTED)
    if unattributed >= HEALTHY_UNATTRIBUTED:
        return Doubt(UNATTRIBUTED_TIME(share=unattributed, remedy=how_to_name(m)), change=name_by_hand(m))
    between = m.compute.between_forwards
    if between.unknown_share >= HEALTHY_UNATTRIBUTED:
        beside = BESIDE_GRADIENTS(share=between.gradients_share) if between.gradients_share >= CLAIM else None
        return by_hand(BETWEEN_FORWARDS, NAME_BETWEEN, share=between.unknown_share, beside=beside)
    rolled_out = m.ledger.parts_of("compute", PartKind.ROLL_OUT)
    if m.ledger.share_of(*rolled_out) >= HEALTHY_UNATTRIBUTED:
        part = part_in_words(_largest(m, rolled_out))
        return by_hand(ROLLED_OUT, NAME_ENVIRONMENT, share=m.ledger.share_of(*rolled_out), part=part)
    return _in_sharing(m) or _around_update(m) or _of_lines_beside_backward(m) or _of_lines_by_stacks(m)


def _in_sharing(m: Measurements) -> Doubt | None:
    """Time in which ranks wait for each other, or may."""
    if m.sharing.ranks > 1 and not m.sharing.seen:
        return Doubt(WAITING_NOT_MEASURED())
    shared = m.ledger.share("gradient_sharing")
    if shared >= HEALTHY_SHARING and m.sharing.apart:
        return Doubt(SHARING_WITH_OTHERS(share=shared, own_ns=float(m.sharing.own_ns.mean())))
    if shared >= HEALTHY_SHARING:
        how = m.training.words.write({Remedy.ACCUMULATE: ...})
        advice = f"try fewer, larger exchanges: accumulate gradients{how and f', {how}'}"
        return by_hand(OVERLAP_NOT_KNOWN, advice, share=shared)
    return None


def _around_update(m: Measurements) -> Doubt | None:
    """Code of the script's own before its update, in it, or in its backward."""
    before = m.compute.before_update
    if before is not None and before.share >= HEALTHY_UNATTRIBUTED:
        return Doubt(BEFORE_UPDATE(name=before.name, share=before.share), change=f"try {before.name} every k steps")
    own = m.compute.own_update
    if own is not None and own.share >= HEALTHY_UNATTRIBUTED and own.elements is not None and _is_by_small_tensor(own, own.elements):
        remedy = f"try {own.name} on all tensors at once"
        return by_hand(OWN_UPDATE, remedy, name=own.name, share=own.share, place=own.place, elements=round(own.elements))
    hook = m.compute.in_backward
    if hook is not None and hook.share >= HEALTHY_UNATTRIBUTED:
        return Doubt(HOOK_IN_BACKWARD(name=hook.name, share=hook.share), change=f"try {hook.name} every k steps, or without")
    return None


def _is_by_small_tensor(own: OwnUpdate, elements: float) -> bool:
    """Whether it does tensor by tensor, as far as is known, what may take less for all at once."""
    by_tensor = own.by_tensor_share is None or own.by_tensor_share >= BY_TENSOR
    return by_tensor and elements <= SMALL_TENSOR


def _of_lines_beside_backward(m: Measurements) -> Doubt | None:
    """What may be more than an update by hand, or than a forward."""
    unseen = m.ledger.parts_of("compute", PartKind.BEFORE_BACKWARD)
    if m.ledger.share_of(*unseen) >= HEALTHY_UNATTRIBUTED:
        most = part_name_and_place(_largest(m, unseen))
        return by_hand(LINES_BEFORE_BACKWARD, NAME_IT, share=m.ledger.share_of(*unseen), most=most)
    beside = m.ledger.parts_of("compute", PartKind.BESIDE_BACKWARD)
    if m.ledger.share_of(*beside) < HEALTHY_UNATTRIBUTED:
        return None
    most = part_name_and_place(_largest(m, beside))
    advice = m.training.words.advise(Remedy.NAMED_UPDATE)
    return by_hand(LINES_BESIDE_BACKWARD, advice, share=m.ledger.share_of(*beside), most=most)


def _of_lines_by_stacks(m: Measurements) -> Doubt | None:
    """What a loop that is not fed calls of the framework beside its steps' bodies. Python code that runs just before it holds the GIL,
    where no stack is taken: the next one that is taken stands for it.
    """
    parts = [part for part in m.ledger.parts_of("compute", PartKind.LINES, PartKind.FORWARD_BY_STACKS) if part not in m.ledger.timed]
    if m.trainer.is_fed or m.ledger.share_of(*parts) < HEALTHY_UNATTRIBUTED:
        return None
    most = _largest(m, parts)
    wording = FORWARD_BY_STACKS if most == FORWARD else LINES_BY_STACKS
    return by_hand(wording, NAME_IT, share=m.ledger.share_of(*parts), most=part_in_words(most))


def _of_blocking(m: Measurements) -> Doubt | None:
    """What is no computing."""
    blocked = blocked_inside(m)
    if blocked is None:
        return None
    most = None if blocked.line is None else MOST_IN_LINE(line=blocked.line)
    others = (m.machine.resources.threads or 1) - 1
    if m.machine.load.busy and (others or _others_queue(m, blocked)):
        # How long its own thread waited for a core is known, and of the others not.
        named = {0: "threads", 1: "thread"}.get(others, f"{others} threads")
        return Doubt(BLOCKED_OR_QUEUED(share=blocked.share, most=most, others=named))
    look = f"look for a sleep, a lock, a server or a file {'inside the steps' if blocked.line is None else f'in {blocked.line}'}"
    return Doubt(BLOCKED_INSIDE(share=blocked.share, most=most), change=look)


def _of_compiled(m: Measurements) -> Doubt | None:
    """Calls that hold most of the time and make whole steps: no layer of theirs is seen, nor who else computes meanwhile."""
    share = float(m.ledger.of_parts(UPDATES).sum()) / float(m.step_ns.sum())
    return by_hand(COMPILED_STEP, PROFILE_STEPS, share=share) if share >= MOST_OF_STEP else None


def _others_queue(m: Measurements, blocked: Blocked) -> bool:
    """Whether as many threads as would explain it stood in a queue for a core, where no loader has processes of its own: some frameworks
    run each operation on another thread than that which calls, however few threads one operation has.
    """
    queueing = m.machine.resources.queueing
    own = sum(float(m.ledger.of(stage, PartKind.CORE_WAIT).mean()) for stage in STAGES) / float(m.step_ns.mean())
    return queueing is not None and not m.input.demand.workers and queueing - own >= blocked.share


def _largest(m: Measurements, parts: Sequence[Part]) -> Part:
    return max(parts, key=m.ledger.total_of)


def _of_findings(m: Measurements, answers: Answers) -> Doubt | None:
    """Findings that may gain enough, together, or where their gain were known."""
    leading = [judged.finding for judged in answers.leading]
    large = large_together(m, answers, "record more steps, on a quieter machine")
    if large is not None:
        return Doubt(large, _levers(leading[:1] if large.of(FIRST_GAIN_MAY_BE_NONE) else leading))
    unknown = of_unknown_gain(answers)
    if unknown is not None:
        # Of what is on all the time its own share is not known.
        is_whole = len(unknown.claims) > 1 and math.isclose(unknown.share, m.ledger.share(unknown.stage))
        whole = WHOLE_STAGE(stage=unknown.stage) if is_whole else None
        reason = GAIN_NOT_KNOWN(rule=unknown.rule, whole=whole, share=unknown.share, remedy="try its fix")
        levers = _levers([unknown])
        return Doubt(reason, levers, unknown.fixes[0].text if levers is None else None, unknown.rule)
    for doubtful in (judged.finding for judged in answers.uncertain):
        if may_be_bottleneck(doubtful):
            reason = SHARE_TOO_WIDE(rule=doubtful.rule, low=doubtful.share_low, high=doubtful.share_high)
            return Doubt(reason, _levers([doubtful]))
    return None


def _of_unjudged(m: Measurements, answers: Answers) -> Doubt | None:
    """A tenth of the time that a rule could not judge, or that no finding claims."""
    judged = [*answers.leading, *answers.uncertain]
    unclaimed = _unclaimed_input(m, judged)
    doubted = _doubted(m, answers.unjudged, unclaimed)
    if doubted:
        first = next((skipped for skipped in doubted if skipped.lever is not None), doubted[0])
        lever = first.lever
        if lever is None and unclaimed is not None and m.input.loader is not None and unclaimed.kind is not PartKind.ROLL_OUT:
            lever = mock_loader(m)
        change = first.change if lever is None else None
        reason = RULE_NOT_JUDGED(rule=first.rule, reason=first.reason)
        return Doubt(reason, lever, change, by_fault=first.by_fault)
    queued = _unclaimed_queue(m, judged)
    if unclaimed is not None and m.ledger.share_of(unclaimed) >= queued:
        share, words, is_rolled_out = m.ledger.share_of(unclaimed), part_in_words(unclaimed), unclaimed.kind is PartKind.ROLL_OUT
        if m.input.loader is None or is_rolled_out or mock_loader(m) is None:
            remedy = PLAY_LESS if is_rolled_out else _told_by_hand(m)
            return by_hand(NO_FIX_KNOWN, remedy, share=share, part=words, stage=unclaimed.stage)
        reason = NO_FIX_KNOWN(share=share, part=words, stage=unclaimed.stage, remedy=_faster_input(m, unclaimed))
        return Doubt(reason, MOCK_LOADER)
    return _of_queue(m, queued) if queued else None


def _told_by_hand(m: Measurements) -> str:
    """What a change of the script tells of input that no lever changes."""
    if m.input.loader is None:
        return NAME_IT
    return NAME_WITHIN if is_marked(m) else REPEAT_ONE


def _faster_input(m: Measurements, part: Part) -> str:
    """What tells more where no rule says what makes a part of the input faster."""
    one_by_one = m.input.loader is not None and m.input.loader.dataset == "TensorDataset" and m.input.loader.batch_size is not None
    if not one_by_one or part.kind not in (PartKind.SAMPLES, PartKind.COLLATE):
        return _most_of_input(m)
    whole = m.training.words.advise(Remedy.WHOLE_BATCHES, ...)
    return f"{_most_of_input(m)}, and whole batches of a TensorDataset ({whole}) may gain some of it"


def _most_of_input(m: Measurements) -> str:
    """What measures how much faster input could gain."""
    return MEASURE_INPUT if m.sharing.ranks == 1 else MEASURE_INPUT_ALONE


def _of_queue(m: Measurements, queued: float) -> Doubt:
    """The share `queued` of the time was waited for a core, beside what the training itself runs."""
    if _has_workers(m):
        return Doubt(WAITS_FOR_CORE(share=queued, whose="its own workers", remedy=_most_of_input(m)), MOCK_LOADER)
    whose = "its own other threads and processes"
    if (m.machine.resources.threads or 1) > 1 and not m.trainer.is_asynchronous and is_made(m, threads(1)):
        remedy = f"slowstep prove --levers {threads(1)} measures it"
        return Doubt(WAITS_FOR_CORE(share=queued, whose=whose, remedy=remedy), threads(1))
    return by_hand(WAITS_FOR_CORE, "look at what else the script runs", share=queued, whose=whose)


def _levers(findings: Iterable[Finding]) -> str | None:
    """The first lever of each finding's fixes, as `prove --levers` takes them."""
    firsts = (next((fix.lever for fix in finding.fixes if fix.lever is not None), None) for finding in findings)
    return ",".join(dict.fromkeys(lever for lever in firsts if lever is not None)) or None


def _doubted(m: Measurements, unjudged: list[NotJudged], unclaimed: Part | None) -> list[NotJudged]:
    """The rules that could not judge a stage which holds a tenth; only those of the `unclaimed` input where there is such."""

    def matters(skipped: NotJudged) -> bool:
        stages = rules()[skipped.rule].stages
        return max(map(m.ledger.share, stages)) >= UNJUDGED_STAGE and (unclaimed is None or unclaimed.stage in stages)

    return [skipped for skipped in unjudged if not skipped.advisory and matters(skipped)]


def _unclaimed_input(m: Measurements, judged: list[Judged]) -> Part | None:
    """The largest part of waiting for input that no finding explains, where its share is worth a verdict; None where there is none."""
    claimed = {part for j in judged if _explains(m, j.finding) for part in j.finding.claims}
    parts = [part for part in m.ledger.parts if part.stage in INPUT and part.kind is not PartKind.CORE_WAIT and part not in claimed]
    largest = max(parts, key=m.ledger.share_of, default=None)
    return largest if largest is not None and m.ledger.share_of(largest) >= HEALTHY_UNATTRIBUTED else None


def _explains(m: Measurements, finding: Finding) -> bool:
    """Whether what the finding's fix leaves of the waits that it claims is not worth a verdict; where the gain is unknown that is said."""
    if finding.gain.predicted is None:
        return True
    waits = m.ledger.share_of(*(part for part in finding.claims if part.stage in INPUT))
    return waits - (1 - 1 / finding.gain.predicted) < HEALTHY_UNATTRIBUTED


def _unclaimed_queue(m: Measurements, judged: list[Judged]) -> float:
    """The share of waiting for a core that no finding claims; 0 where that is not worth a verdict, or others use the cores."""
    share = sum(m.ledger.share(stage, PartKind.CORE_WAIT) for stage in (*STAGES, UNATTRIBUTED))
    is_claimed = any(part.kind is PartKind.CORE_WAIT for j in judged for part in j.finding.claims)
    return share if share >= HEALTHY_UNATTRIBUTED and not is_claimed and not m.machine.load.busy else 0.0


def _has_workers(m: Measurements) -> bool:
    return m.input.loader is not None and m.input.loader.num_workers > 0
