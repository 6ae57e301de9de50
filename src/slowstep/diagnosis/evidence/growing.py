"""What the rules about growth have in common: which part grows, whether it writes a file, and what its growth costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.growth import WRITING, PartGrowth, is_writer
from slowstep.analyses.python.functions import FEWEST_STACKS
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import python_lines
from slowstep.diagnosis.evidence.after_pause import SparedAfterPauses, after_pauses, longer_after, with_pauses
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.evidence.unnamed import where_unnamed
from slowstep.diagnosis.gain import Case, Counterfactual, runs_differ, saved_by
from slowstep.diagnosis.rule import CLAIM
from slowstep.findings import Evidence
from slowstep.part_words import part_in_words, part_place, part_without_place
from slowstep.stages import RESULT_STAGES, UNATTRIBUTED

# Over the run a step grows by so much of the first at least: under that, the drift of a machine.
GROWN_BY = 0.10
# What takes longer for the bytes that are written than any encoding grows for another reason.
SLOWEST_BYTES_PER_S = python_lines.ENCODED_BYTES.value


def growing(m: Measurements) -> PartGrowth | None:
    """The part that makes steps grow; None where they surely do not."""
    trend, growth = m.over_time.trend, m.over_time.growth
    # A machine whose pace varied drifts by more.
    drift = max(GROWN_BY, runs_differ(m) - 1)
    if trend is None or growth is None or trend.first <= 0 or growth.trend.growth_low < drift * trend.first:
        return None
    # Where the step grows by less than half of it, other parts shrink meanwhile: the work has only moved, or been named otherwise.
    return growth if trend.growth >= growth.trend.growth / 2 else None


def is_file(m: Measurements, growth: PartGrowth) -> bool:
    """Whether what grows is the writing of a file."""
    return is_writer(growth.part, growth.writes_share) or (growth.part.stage in RESULT_STAGES and _writes_more(m, growth))


def _writes_more(m: Measurements, growth: PartGrowth) -> bool:
    """Whether steps write so many more bytes that these explain the time: encoders written in C (pickle) are in no stack."""
    written = m.over_time.written
    return written is not None and written.growth_bytes >= SLOWEST_BYTES_PER_S * growth.trend.growth / 1e9


def stacks_too_few(m: Measurements, growth: PartGrowth) -> int | None:
    """By how many stacks alone the part is named that grows, where these are too few to blame it; else None."""
    stacks = m.ledger.gap_stacks.get(growth.part)
    if growth.part.stage == UNATTRIBUTED or growth.part in m.ledger.timed or stacks is None or stacks >= FEWEST_STACKS:
        return None
    return stacks


def is_blamed(m: Measurements, growth: PartGrowth) -> bool:
    """Whether growing-file or growing-step-time say of the part that it grows."""
    return is_file(m, growth) or stacks_too_few(m, growth) is None


def grown(m: Measurements, growth: PartGrowth) -> str:
    """What grows, as sentences call it: the part, or where it runs."""
    return where_unnamed(m) if growth.part.stage == UNATTRIBUTED else part_in_words(growth.part)


@dataclass(frozen=True, kw_only=True, slots=True)
class Appending:
    """What appending would write per step in place of writing all again, what is left of the part then, and what is spared (ns of each)."""

    added_bytes: float
    left_ns: float
    spared_ns: Floats


def find_appending(m: Measurements, growth: PartGrowth) -> Appending | None:
    """By a line through the part's time and the bytes that steps write, drawn to those that each step adds: what does not go with bytes, as
    the opening of the file, stays. None where the bytes do not grow steadily.

    Bytes that steps write elsewhere draw it too far, to nothing at most; it never spares less than staying as at first.
    """
    written = m.over_time.written
    if written is None or not written.grows or growth.trend.growth <= 0:
        return None
    added = written.growth_bytes / m.steps.stretches
    again = max(written.first_bytes - added, 0.0)
    left = max(growth.trend.first - growth.trend.growth * again / written.growth_bytes, 0.0)
    left = min(left, growth.first_ns)
    own = m.ledger.of_parts(growth.part)
    queued = float(with_core_delay(m, growth.part).sum() / own.sum())
    return Appending(added_bytes=added, left_ns=left, spared_ns=np.clip(own - left, 0, None) * queued)


def growth_counterfactual(m: Measurements, growth: PartGrowth, words: str, spared_ns: Floats | None = None) -> Counterfactual:
    """The part stays as at the first step, or is spared what is said; at worst it only grows as much less as is sure."""
    sure = min(max(growth.trend.growth_low / growth.trend.growth, 0.0), 1.0)

    def case(removed_ns: Floats, factor: float = 1.0) -> Case:
        beside = factor * concurrent_producers_ns(m, spared_cpu_ns=float(removed_ns.mean()))
        return Case(removed_ns=removed_ns, concurrent_ns=beside, delay_share=delay_share(m, growth.part))

    removed = growth.above_ns if spared_ns is None else spared_ns
    counterfactual = Counterfactual(
        assumes=words,
        expected=case(removed),
        pessimistic=case(sure * growth.above_ns, PESSIMISTIC_BESIDE),
        # What the part takes at first goes too.
        optimistic=case(with_core_delay(m, growth.part)),
    )
    return with_pauses(counterfactual, _after_pauses(m, growth, removed))


def _after_pauses(m: Measurements, growth: PartGrowth, removed_ns: Floats) -> SparedAfterPauses | None:
    """What steps after the part get shorter by; None where that is the training's own work or its input."""
    if growth.part.stage not in RESULT_STAGES:
        return None
    return after_pauses(m, with_core_delay(m, growth.part), removed_ns=removed_ns)


def growth_evidence(
    m: Measurements, growth: PartGrowth, share: float, counterfactual: Counterfactual, appending: Appending | None = None
) -> tuple[Evidence, ...]:
    """What grew, from what to what, and how sure that is; `share` is beyond what it takes at first, or what appending leaves."""
    trend, written = m.over_time.trend, m.over_time.written
    assert trend is not None
    bytes_rows = (
        ()
        if written is None or growth.is_models
        else (
            Evidence(name="steps write at first", value=written.first_bytes, unit="bytes per step"),
            Evidence(name="steps write at the end", value=written.last_bytes, unit="bytes per step"),
        )
    )
    return (
        Evidence(name="step at first", value=trend.first / 1e6, unit="ms"),
        Evidence(name="step at the end", value=trend.last / 1e6, unit="ms"),
        Evidence(name="grown by at least", value=growth.trend.growth_low / trend.first, unit="share of the first step", threshold=GROWN_BY),
        Evidence(name="part that grows", value=part_without_place(growth.part), unit="", where=part_place(growth.part)),
        Evidence(name="it takes at first", value=max(growth.trend.first, 0.0) / 1e6, unit="ms"),
        Evidence(name="it takes at the end", value=growth.trend.last / 1e6, unit="ms"),
        Evidence(name="in code that writes files", value=growth.writes_share, unit="share of its stacks", threshold=WRITING),
        *bytes_rows,
        *_beyond(share, appending),
        *longer_after(_after_pauses(m, growth, growth.above_ns if appending is None else appending.spared_ns)),
        saved_by(m, counterfactual),
    )


def _beyond(share: float, appending: Appending | None) -> tuple[Evidence, ...]:
    if appending is None:
        return (Evidence(name="beyond what it takes at first", value=share, unit="share of window", threshold=CLAIM),)
    return (
        Evidence(name="appending writes", value=appending.added_bytes, unit="bytes per step"),
        Evidence(name="expected to be left of it", value=appending.left_ns / 1e6, unit="ms"),
        Evidence(name="beyond what is left", value=share, unit="share of window", threshold=CLAIM),
    )
