"""A file that grows with the run is written as a whole each time.

What it sees:
    A function after the update takes longer and longer (a line through its time per step rises with 99.9 % certainty, in both halves of the
    run; or it takes more than twice as long in the last third as in the first, and the middle lies between; 95 % are enough where the bytes
    that each step writes grow steadily, too), and its stacks stand in code that encodes or writes files: json, csv, a plot; or the bytes
    that each step writes, by the kernel's count, grow with it, as fast as encoders are (10 MB/s and more: pickle is written in C, and
    stands in no stack). Or files of checkpoints of which nearly each is larger than its like in the checkpoint before, the last at least
    half as large again as the first.
Why it costs:
    Writing all that was ever measured at every step costs the square of the number of steps: it is nothing in a short try and most of the
    time in a long run.
How the gain is predicted:
    r is what the writing takes more than appending would: a line through its time and the bytes that steps write is drawn to the bytes that
    each step adds, so that the opening of the file stays. Where these bytes are not known, it is what the writing takes more than at the
    first update, to which its line over time is drawn back; at worst always. At best all of it goes. The step after it
    gets shorter with it, as after slow-callback's. B is what the loader's workers need per step. Over a longer run the gain is larger.
When it is wrong:
    The same function may do other things that grow. Under 96 steps in the window nothing is said of functions.
What to try:
    Append one line per step (JSON lines, CSV, a logger), draw the plot at the end of an epoch, keep the history out of the checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slowstep.analyses.ledger.saves import GrowingSaves
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.growth import PartGrowth
from slowstep.diagnosis.evidence.after_pause import after_pauses, longer_after, with_pauses
from slowstep.diagnosis.evidence.growing import Appending, find_appending, growing, growth_counterfactual, growth_evidence, is_file
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import CHECKPOINT_OFF, stub_of
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.part_words import is_named, is_plural, part_in_words, part_without_place
from slowstep.units import format_bytes, format_duration

NAME = "growing-file"


def judge(m: Measurements) -> Answer:
    """Whether a file is rewritten that grows, by a function after the update or as a checkpoint."""
    growth = growing(m)
    if growth is None or not is_file(m, growth):
        return _checkpoints(m)
    appending = find_appending(m, growth)
    spared_ns = growth.above_ns if appending is None else appending.spared_ns
    share, low, high = share_interval(m, spared_ns)
    if share < CLAIM:
        return None
    counterfactual = growth_counterfactual(m, growth, _only_appending(growth, appending), spared_ns)
    writes = f"{part_in_words(growth.part)} {'write' if is_plural(growth.part) else 'writes'} more at every step"
    # A line through times that begin near nothing may begin below it.
    first, last = max(growth.trend.first, 0.0), growth.trend.last
    finding = Finding(
        rule=NAME,
        stage=growth.part.stage,
        title=f"{writes}: {format_duration(first)} at first, {format_duration(last)} at the end",
        opens_with_name=is_named(growth.part),
        share=share,
        share_low=low,
        share_high=high,
        claims=(growth.part,),
        evidence=growth_evidence(m, growth, share, counterfactual, appending),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(
                text=f"let {part_without_place(growth.part)} append what is new (JSON lines, CSV) instead of writing all of it again",
                bounded_by=stub_of(m, growth.part),
            ),
            Fix(text="write or draw it at the end of an epoch"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _only_appending(growth: PartGrowth, appending: Appending | None) -> str:
    """What is assumed of the part, as a clause."""
    name, are_several = part_in_words(growth.part), is_plural(growth.part)
    appends, takes = ("append", "take") if are_several else ("appends", "takes")
    if appending is None:
        return f"{name} only {appends}, and {takes} no longer than at first"
    return f"{name} only {appends} {format_bytes(appending.added_bytes)} in each step"


def _checkpoints(m: Measurements) -> Judged | None:
    saves = m.over_time.growing_saves
    if saves is None:
        return None
    above = saves.above_ns
    share, low, high = share_interval(m, above)
    if share < CLAIM:
        return None
    beside = concurrent_producers_ns(m, spared_cpu_ns=float(above.mean()))
    case = Case(removed_ns=above, concurrent_ns=beside, delay_share=delay_share(m, *saves.parts))
    pessimistic = replace(case, concurrent_ns=PESSIMISTIC_BESIDE * beside)
    spared = after_pauses(m, np.sum([with_core_delay(m, part) for part in saves.parts], axis=0), removed_ns=above)
    counterfactual = Counterfactual(
        assumes="checkpoints stayed as small as the first", expected=case, pessimistic=pessimistic, optimistic=case
    )
    counterfactual = with_pauses(counterfactual, spared)
    sizes = f"{saves.first_bytes / 1e6:.1f} to {saves.last_bytes / 1e6:.1f} MB"
    finding = Finding(
        rule=NAME,
        stage="store",
        title=f"{_what(m)} grow from {sizes}, and each is written whole",
        share=share,
        share_low=low,
        share_high=high,
        claims=saves.parts,
        evidence=(*_evidence_of_saves(m, saves, share), *longer_after(spared), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(
                text="keep what grows (a history, all predictions) out of the checkpoint: append it to a file of its own",
                bounded_by=CHECKPOINT_OFF,
            ),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence_of_saves(m: Measurements, saves: GrowingSaves, share: float) -> tuple[Evidence, ...]:
    return (
        Evidence(name="checkpoints", value=saves.count, unit="checkpoints", where=m.saves.where),
        Evidence(name="first", value=saves.first_bytes / 1e6, unit="MB"),
        Evidence(name="last", value=saves.last_bytes / 1e6, unit="MB"),
        Evidence(name="time beyond the first one's", value=share, unit="share of window", threshold=CLAIM),
    )


def _what(m: Measurements) -> str:
    return "files of checkpoints" if (m.saves.writes_each or 1.0) > 1 else "checkpoints"


RULE = Rule(
    name=NAME,
    stages=("output", "store"),
    topics=("compute", "input", "ledger", "machine", "over_time", "python", "saves", "steps", "trainer"),
    judge=judge,
)
