"""What the rules about a loop that makes its own batches have in common: how well it is known what they take."""

from __future__ import annotations

from slowstep.analyses.input.loop_input import LoopInput
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.after_update import timed_spread
from slowstep.diagnosis.evidence.input.input_side import removable_waits
from slowstep.diagnosis.evidence.spread import TimeSpread, stack_spread
from slowstep.diagnosis.evidence.timed_in import timed_in
from slowstep.findings import Evidence, EvidenceCode
from slowstep.part_words import part_in_words
from slowstep.parts import Part, PartKind
from slowstep.reasons import Reason, Wording

NAME_ENVIRONMENT = "name it: with slowstep.span('environment', stage='preprocess')"

WORKERS_UNKNOWN = Wording("workers-unknown", "what a loader's workers would gain is unknown where input is {part}")
WORKERS_UNKNOWN_OF_ROLL_OUT = Wording(
    "workers-unknown-of-roll-out", f"what a loader's workers would gain is unknown where input is {{part}}; {NAME_ENVIRONMENT}"
)


def made_in_loop(m: Measurements) -> LoopInput | None:
    """What the loop makes of its input itself, where that is more than it waits for a loader's batches."""
    made = m.input.loop_input
    if made is None or m.input.loader is None:
        return made
    return made if made.made_ns.sum() > removable_waits(m).sum() else None


def workers_unknown(other: Part) -> Reason:
    """Why it is not known what a loader's workers would gain where the loop's input is something else than making batches."""
    wording = WORKERS_UNKNOWN_OF_ROLL_OUT if other.kind is PartKind.ROLL_OUT else WORKERS_UNKNOWN
    return wording(part=part_in_words(other))


def spread_of_loop_input(m: Measurements, made: LoopInput) -> TimeSpread:
    """How far off what making batches takes may be."""
    if made.timed and made.largest is not None:
        return timed_spread(m, made.largest)
    # What the script names with a span is known without any.
    return stack_spread(made.stacks, made.of_stacks)


def known_by(m: Measurements, made: LoopInput) -> Evidence:
    """By how many timed gaps, or stacks, it is known."""
    if made.timed:
        return timed_in(m, made.timed)
    where = f"of {made.of_stacks} outside the steps' bodies"
    return Evidence(name="stack samples in it", value=made.stacks, unit="samples", where=where, code=EvidenceCode.STACKS)
