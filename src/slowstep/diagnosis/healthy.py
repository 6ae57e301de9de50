"""Whether a training without a bottleneck can be called healthy, and what would tell where that is not known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from slowstep.analyses.compute.blocked import Blocked
from slowstep.analyses.measurements import Measurements
from slowstep.command_words import prove_levers
from slowstep.diagnosis.evidence.compute.compiled_step import is_spread
from slowstep.diagnosis.evidence.compute.one_call import MOST_OF_STEP
from slowstep.diagnosis.evidence.input.loop_side import NAME_ENVIRONMENT
from slowstep.diagnosis.evidence.trainer_side import blocked_inside
from slowstep.diagnosis.evidence.unnamed import NAME_IT, NAME_WITHIN
from slowstep.diagnosis.law import (
    BOTTLENECK_PREDICTED,
    FIRST_GAIN_MAY_BE_NONE,
    HEALTHY_UNATTRIBUTED,
    RULE_NOT_JUDGED,
    UNJUDGED_STAGE,
    WHOLE_STAGE,
    Answers,
    gain_not_known,
    large_together,
    may_be_bottleneck,
    of_unknown_gain,
    rules,
)
from slowstep.diagnosis.lever_specs import MOCK_LOADER, is_marked, mock_loader, threads
from slowstep.diagnosis.made_levers import is_made
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.unseen_time import unseen_time
from slowstep.diagnosis.viewpoint import Doubt, by_hand
from slowstep.findings import Finding, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import part_in_words
from slowstep.parts import UPDATES, Part, PartKind
from slowstep.reasons import Wording
from slowstep.stages import STAGES, UNATTRIBUTED

INPUT = ("read", "preprocess")
MEASURE_INPUT = f"{prove_levers(MOCK_LOADER)} measures the most that faster input can gain"
# Of input that no lever changes.
REPEAT_ONE = "train on one batch that is repeated: how much faster that is, is the most that faster input can gain"
MEASURE_INPUT_ALONE = f"{MEASURE_INPUT}, of one process trained alone"
# No faster input shortens what the model itself plays or writes.
PLAY_LESS = (
    f"have the model play or write more at a time, or less (keys and values cached); where it is an environment's, {NAME_ENVIRONMENT}"
)

PROFILE_STEPS = "profile some steps by the framework's own profiler, which shows its operations"
BLOCKED_INSIDE = Wording(
    "blocked-inside",
    "for {share:share} of the time the training thread is blocked inside its steps{most}, and nothing computes for it: "
    "look for a sleep, a lock, a server or a file there",
)
BLOCKED_OR_QUEUED = Wording(
    "blocked-or-queued",
    "for {share:share} of the time the training thread waits inside its steps{most}: for the other {others} of its operations, which "
    "find no free core because of other processes, or for a sleep, a lock, a server or a file",
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
    "most of it, nor what the threads that make the input take of the cores meanwhile; {remedy}",
)
WAITS_FOR_CORE = Wording(
    "waits-for-core",
    "{share:share} of the time the training thread waits for a core that is used by {whose}, and no fix is known that would gain; {remedy}",
)


def not_healthy(m: Measurements, answers: Answers) -> Doubt | None:
    """Why the training cannot be called healthy though no single finding is a bottleneck; None where it can."""
    more = more_blocked(m, answers.leading[0].finding) if answers.leading else None
    return unseen_time(m) or more or _of_findings(m, answers) or _of_blocking(m) or _of_unjudged(m, answers) or _of_compiled(m)


def not_the_cause(m: Measurements, answers: Answers, first: Finding) -> Doubt | None:
    """Why the finding that surely gains is not what slows the training, or may be the lesser part of it."""
    return more_blocked(m, first) or _of_larger(answers, first)


def _of_larger(answers: Answers, first: Finding) -> Doubt | None:
    """A finding on a part does not lead where a rule on the whole, that may gain more, could not judge."""
    larger = [skipped for skipped in answers.unjudged if skipped.rule == first.may_be_lesser_than and not skipped.advisory]
    return _left_by(larger) if larger else None


def more_blocked(m: Measurements, first: Finding) -> Doubt | None:
    """Why a finding about computing is not what holds the training up: for more of the time nobody computes. Else None."""
    blocked = blocked_inside(m)
    return _of_blocking(m) if first.stage == "compute" and blocked is not None and blocked.share > first.share else None


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
    """Calls that hold most of the time and make whole steps, where neither their trace tells that no operation holds one, nor is it sure
    that nobody makes input in threads meanwhile.
    """
    share = float(m.ledger.of_parts(UPDATES).sum()) / float(m.step_ns.sum())
    makes_beside = m.input.pipeline is not None or m.input.prefetch_threads is not None
    if share < MOST_OF_STEP or (is_spread(m) and not makes_beside):
        return None
    return by_hand(COMPILED_STEP, PROFILE_STEPS, share=share)


def _others_queue(m: Measurements, blocked: Blocked) -> bool:
    """Whether as many threads as would explain it stood in a queue for a core, where no loader has processes of its own: some frameworks
    run each operation on another thread than that which calls, however few threads one operation has.
    """
    queueing = m.machine.resources.queueing
    own = sum(float(m.ledger.of(stage, PartKind.CORE_WAIT).mean()) for stage in STAGES) / float(m.step_ns.mean())
    return queueing is not None and not m.input.demand.workers and queueing - own >= blocked.share


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
        reason = gain_not_known(unknown, "try its fix", whole)
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
        doubt = _left_by(doubted)
        is_input = unclaimed is not None and m.input.loader is not None and unclaimed.kind is not PartKind.ROLL_OUT
        lever = mock_loader(m) if doubt.levers is None and is_input else None
        return doubt if lever is None else replace(doubt, levers=lever, change=None)
    queued = _unclaimed_queue(m, judged)
    if unclaimed is not None and m.ledger.share_of(unclaimed) >= queued:
        share, words, is_rolled_out = m.ledger.share_of(unclaimed), part_in_words(unclaimed), unclaimed.kind is PartKind.ROLL_OUT
        if m.input.loader is None or is_rolled_out or mock_loader(m) is None:
            remedy = PLAY_LESS if is_rolled_out else _told_by_hand(m)
            return by_hand(NO_FIX_KNOWN, remedy, share=share, part=words, stage=unclaimed.stage)
        reason = NO_FIX_KNOWN(share=share, part=words, stage=unclaimed.stage, remedy=_faster_input(m, unclaimed))
        return Doubt(reason, MOCK_LOADER)
    return _of_queue(m, queued) if queued else None


def _left_by(unjudged: list[NotJudged]) -> Doubt:
    """What rules leave open that could not judge: the first of which a lever tells more, else the first."""
    first = next((skipped for skipped in unjudged if skipped.lever is not None), unjudged[0])
    change = first.change if first.lever is None else None
    return Doubt(RULE_NOT_JUDGED(rule=first.rule, reason=first.reason), first.lever, change, by_fault=first.by_fault)


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


def _of_queue(m: Measurements, queued: float) -> Doubt | None:
    """The share `queued` of the time was waited for a core, beside what the training itself runs."""
    if _has_workers(m):
        return Doubt(WAITS_FOR_CORE(share=queued, whose="its own workers", remedy=_most_of_input(m)), MOCK_LOADER)
    if _compute_too_much_for_one(m):
        return None
    whose = "its own other threads and processes"
    if (m.machine.resources.threads or 1) > 1 and not m.trainer.is_asynchronous and is_made(m, threads(1)):
        remedy = f"{prove_levers(threads(1))} measures it"
        return Doubt(WAITS_FOR_CORE(share=queued, whose=whose, remedy=remedy), threads(1))
    return by_hand(WAITS_FOR_CORE, "look at what else the script runs", share=queued, whose=whose)


def _compute_too_much_for_one(m: Measurements) -> bool:
    """Whether one thread would take as long for what all compute now, none of them in each other's way: where those that wait sleep, what
    they use of the cores is work.
    """
    env, used = m.trainer.facts.notes.get("env") or {}, m.machine.resources.tree_cores
    sleep = str(env.get("OMP_WAIT_POLICY", "")).lower() == "passive"
    return sleep and m.sharing.ranks == 1 and used is not None and used * BOTTLENECK_PREDICTED >= 1


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
