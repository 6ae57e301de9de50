"""What would tell what the time is that no span covers and no stack names."""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import is_library, shown
from slowstep.diagnosis.law import HEALTHY_UNATTRIBUTED
from slowstep.parts import UNKNOWN, PartKind
from slowstep.reasons import Reason, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

NAME_WITHIN = "name parts of it by slowstep.span()"
NAME_IT = f"wrap the loop's input in slowstep.steps(), or {NAME_WITHIN}"
WRAP_IT = 'wrap what runs there: with slowstep.span("name")'
BETWEEN = "between optimizer.step() and the next batch"
MORE_CORES = "record with more cores, or with fewer other processes"
# Of several trainings in one script.
RECORD_ALONE = "record each alone, inside `with slowstep.record():`"
PROFILE_IT = "trace a few steps with the framework's profiler, and analyze that"
RECORD_AGAIN = "record again: this recording is damaged"
NAME_PARTS = Wording("name-parts", NAME_IT)
NOTES_LOST = Wording(
    "notes-lost", "the recording is damaged ({lost:count line} of its notes make no sense), and with it what names functions: record again"
)
DEVICE_NOT_SEEN = Wording("device-not-seen", f"when the device worked was not recorded: {PROFILE_IT}")
WAITS_NOT_SEEN = Wording("waits-not-seen", f"how long the calls that train wait for their input was not recorded: {PROFILE_IT}")
NAME_WHAT_IS_BETWEEN = Wording("name-what-is-between", f"it is {BETWEEN}: {WRAP_IT}")
TOO_FEW_CORES_BETWEEN = Wording(
    "too-few-cores-between", f"it is {BETWEEN}, and the training thread waited for a core for {{queued:share}} of the time: {MORE_CORES}"
)


def how_to_name(m: Measurements) -> Reason:
    """What to do about unattributed time, and why.

    Where it is not known whether a device worked meanwhile, no name of what the host did tells that.
    Where steps have their input of a loader, or of slowstep.steps(), it lies outside of both input and body: there is nothing to wrap. On
    cores that are not enough short stretches of the loop's own become long, and the stack sampler does not get to run in them either.
    Where notes were lost, what they named may have been there.
    """
    if are_notes_lost(m):
        return NOTES_LOST(lost=m.trainer.facts.lost_notes)
    if _is_beside_device(m):
        return WAITS_NOT_SEEN() if m.input.counted is not None and m.input.counted.hides_waits else DEVICE_NOT_SEEN()
    if not m.trainer.is_fed:
        return NAME_PARTS()
    queued = _queued(m)
    return TOO_FEW_CORES_BETWEEN(queued=queued) if queued >= HEALTHY_UNATTRIBUTED else NAME_WHAT_IS_BETWEEN()


def name_by_hand(m: Measurements) -> str:
    """The same as something to do first, without why."""
    if are_notes_lost(m):
        return RECORD_AGAIN
    if _is_beside_device(m):
        return PROFILE_IT
    if not m.trainer.is_fed:
        return NAME_IT
    return MORE_CORES if _queued(m) >= HEALTHY_UNATTRIBUTED else f"{WRAP_IT}, {BETWEEN}"


def are_notes_lost(m: Measurements) -> bool:
    """Whether notes are damaged, of which some may have named functions."""
    return m.trainer.facts.lost_notes > 0


def _is_beside_device(m: Measurements) -> bool:
    unknown = m.ledger.share_of(UNKNOWN)
    return 2 * unknown > m.ledger.share(UNATTRIBUTED)


def _queued(m: Measurements) -> float:
    return sum(m.ledger.share(stage, PartKind.CORE_WAIT) for stage in (*STAGES, UNATTRIBUTED))


def where_unnamed(m: Measurements) -> str:
    """What runs in unattributed time, as far as that is known: when it does, and after which line of the script."""
    if not m.trainer.is_fed:
        return "what runs apart from forward, backward and update and could not be named"
    way = m.trainer.way_to_update
    # A framework's own loop calls its update where no line of the script says when.
    after = f" in {shown(way[-1].file, m.trainer.facts.script)}:{way[-1].line}" if way and not is_library(way[-1]) else ""
    return f"what runs between the update{after} and the request for the next batch"
