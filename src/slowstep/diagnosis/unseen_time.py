"""Time of a training of which it is not known what it is, or whether it is needed: while there is much of it, it is not called healthy."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.analyses.after_update.gaps import FORWARD
from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.often_lines import OFTEN
from slowstep.calibration import updating
from slowstep.diagnosis.evidence.compute.one_call import MOST_OF_STEP
from slowstep.diagnosis.evidence.compute.optimizer_side import tells_update
from slowstep.diagnosis.evidence.input.loop_side import NAME_ENVIRONMENT
from slowstep.diagnosis.evidence.trainer_side import body_rest, with_core_delay
from slowstep.diagnosis.evidence.unnamed import NAME_IT, RECORD_ALONE, how_to_name, name_by_hand
from slowstep.diagnosis.law import HEALTHY_UNATTRIBUTED, UNATTRIBUTED_TIME, UNJUDGED_STAGE
from slowstep.diagnosis.rule import CLAIM
from slowstep.diagnosis.viewpoint import Doubt, by_hand
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import part_in_words, part_name_and_place
from slowstep.parts import BACKWARD, Part, PartKind
from slowstep.reasons import Wording
from slowstep.stages import UNATTRIBUTED
from slowstep.units import format_ranks

# No rule judges this stage without a trace, so the same share as of a stage whose rules could not judge.
HEALTHY_SHARING = UNJUDGED_STAGE
# It may be anything: an update by hand, sampling, what is played.
NAME_BETWEEN = (
    "name it: with slowstep.span(NAME, stage='compute') around what is the model's work (updates by hand, losses), "
    "stage='preprocess' around what makes its input (an environment)"
)
SEE_WHY = "see why it is not recorded"
# Elements, up to which written for all tensors at once gains.
SMALL_TENSOR = updating.SMALL_TENSOR.value
# What already calls operations for all tensors spends most of its time in those.
BY_TENSOR = updating.BY_TENSOR.value
OTHER_TRAININGS = Wording(
    "other-trainings",
    "{share:share} of the training time belongs to other trainings, before or after this one, which were not looked at: {remedy}",
)
BETWEEN_FORWARDS = Wording(
    "between-forwards", "{share:share} of the time lies between a step's forwards{beside}, and it is not known what runs there; {remedy}"
)
BESIDE_GRADIENTS = Wording("beside-gradients", " apart from the computing of gradients ({share:share})")
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
LATE_ONE_NOT_RECORDED = Wording(
    "late-one-not-recorded",
    "{share:share} of the time goes into sharing gradients and waiting for other ranks, and whether this one waits for {missing}, "
    "which left no recording, is not seen; {remedy}",
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
RECURRENCE_BY_PLACES = Wording(
    "recurrence-by-places",
    "{layer} is called {calls:,.0f} times for each backward pass{caller} and takes {share:share} of the time with that, and it is not "
    "known whether each call is for one place of its sequences; {remedy}",
)
CALLED_BY = Wording("called-by", " by {name} ({place})")
GIVE_WHOLE_SEQUENCES = "if so, give it whole sequences in one call, where none of its inputs is made of what it gave before"
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
    "{share:share} of the time is what the loop itself does apart from its backward, most of it in {most}, and it is not known how much of "
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


def unseen_time(m: Measurements) -> Doubt | None:
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
    return _in_sharing(m) or _around_update(m) or _in_recurrence(m) or _of_lines_beside_backward(m) or _of_lines_by_stacks(m)


def _in_sharing(m: Measurements) -> Doubt | None:
    """Time in which ranks wait for each other, or may."""
    if m.sharing.ranks > 1 and not m.sharing.seen:
        return Doubt(WAITING_NOT_MEASURED())
    shared = m.ledger.share("gradient_sharing")
    if shared >= HEALTHY_SHARING and m.sharing.apart:
        return Doubt(SHARING_WITH_OTHERS(share=shared, own_ns=float(m.sharing.own_ns.mean())))
    if shared >= HEALTHY_SHARING and m.sharing.missing.count:
        return by_hand(
            LATE_ONE_NOT_RECORDED, SEE_WHY, share=shared, missing=format_ranks(m.sharing.missing.numbers, m.sharing.missing.count)
        )
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
    if own is not None and own.share >= HEALTHY_UNATTRIBUTED and own.elements is not None and _is_by_small_tensor(m, own, own.elements):
        remedy = f"try {own.name} on all tensors at once"
        return by_hand(OWN_UPDATE, remedy, name=own.name, share=own.share, place=own.place, elements=round(own.elements))
    hook = m.compute.in_backward
    if hook is not None and hook.share >= HEALTHY_UNATTRIBUTED:
        return Doubt(HOOK_IN_BACKWARD(name=hook.name, share=hook.share), change=f"try {hook.name} every k steps, or without")
    return None


def _in_recurrence(m: Measurements) -> Doubt | None:
    """A recurrent layer that is called place by place and holds most of the step: whether it must be, only its author knows."""
    found = m.compute.work.recurrence
    calls = 0.0 if found is None else found.calls / max(m.trainer.backwards_per_step, 1.0)
    if found is None or calls < OFTEN:
        return None
    # Its backward is the same share of backward as of the forward, as that of one line of a model is.
    share = found.share * float((body_rest(m) + with_core_delay(m, BACKWARD)).sum()) / float(m.step_ns.sum())
    if share < MOST_OF_STEP:
        return None
    caller = None if found.caller is None else CALLED_BY(name=found.caller, place=found.place or "")
    return by_hand(RECURRENCE_BY_PLACES, GIVE_WHOLE_SEQUENCES, layer=found.layer, calls=calls, caller=caller, share=share)


def _is_by_small_tensor(m: Measurements, own: OwnUpdate, elements: float) -> bool:
    """Whether it does tensor by tensor, as far as is known, what may take less for all at once, and nobody knows how much less."""
    by_tensor = own.by_tensor_share is None or own.by_tensor_share >= BY_TENSOR
    return by_tensor and elements <= SMALL_TENSOR and not tells_update(m)


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


def _largest(m: Measurements, parts: Sequence[Part]) -> Part:
    return max(parts, key=m.ledger.total_of)
