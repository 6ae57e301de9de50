"""What the rules about the time after an update have in common: which part is whose."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.after_update.activities import Activity
from slowstep.analyses.after_update.gap_parts import called_in_gap
from slowstep.analyses.after_update.timed_gaps import DirectCall, GapFunction, Within
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import observing
from slowstep.diagnosis.evidence.after_pause import after_pauses, longer_after, with_pauses
from slowstep.diagnosis.evidence.spread import TimeSpread, even, stack_spread
from slowstep.diagnosis.evidence.timed_in import timed_in
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import LOGGING_OFF, seldom, stub
from slowstep.diagnosis.rule import CLAIM, Judged
from slowstep.findings import Evidence, Finding, Fix
from slowstep.part_words import is_named, is_plural, part_called, part_name, part_name_and_place, part_noun, part_place
from slowstep.parts import COLLECTION, NOT_ATTRIBUTED, CodePlace, Part, PartKind
from slowstep.shares import MOSTLY
from slowstep.stages import RESULT_STAGES
from slowstep.units import format_share

# A share that is known from calls timed in a few gaps, either way; and from lines in a loop without a loader that hold next to nothing of
# what was timed.
TIMED_SPREAD, LINES_SPREAD = observing.TIMED_PART.value, observing.TIMED_LINE.value
# The fix that is advised for what need not run after every update: once in so many steps.
EVERY = 50
# Waits for a core of less than this make no share read as another.
WAITS_SAID = 0.01
# Python's own functions that write lines, and methods of such names.
PRINTS = re.compile(r"(^|\.)(print|write|writelines|writerows?)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedFunctions:
    """What runs after every update, and the ledger parts that are its: a function, or lines of the loop itself. They differ in their stage.

    `logging` and `metrics` are the shares that it spends in such libraries, `calls` of them in each step, None where others make such calls
    too. `spread` is how far off its time may be. `lever` makes it do nothing.
    """

    parts: tuple[Part, ...]
    spread: TimeSpread
    logging: float
    metrics: float
    calls: float | None
    within: Within | None
    beside_update: bool = False  # it is a line that makes the update, too
    on_weights: bool = False  # what it does, it does with the model's weights
    lever: str | None = None

    @property
    def part(self) -> Part:
        """Any of them."""
        return self.parts[0]

    @property
    def name(self) -> str:
        """As sentences call it: "draw", "lines 30-34"."""
        return part_name(self.part)

    def says(self, verb: str) -> str:
        """What it does, in the right number: "runs", of lines "run"."""
        return verb if is_plural(self.part) else f"{verb}s"

    @property
    def call(self) -> str:
        """The beginning of an advice: "call f", "run line 20"."""
        if self.beside_update:
            return apart_from_update(self.name)
        return f"{'run' if self.part.kind is PartKind.LINES else 'call'} {self.name}"

    @property
    def prints(self) -> bool:
        """Whether that of a library which holds most of it writes lines as they are given, without a logger's levels and handlers."""
        if self.part.kind is PartKind.LIBRARY_CALL:
            return bool(PRINTS.search(self.name))
        return self.within is not None and self.within.share >= MOSTLY and bool(PRINTS.search(self.within.name))

    @property
    def is_logger(self) -> bool:
        """Whether it mostly writes log lines, event files or to the terminal."""
        return self.logging >= MOSTLY

    @property
    def is_metric(self) -> bool:
        """Whether it mostly judges results, and is no logger."""
        return self.metrics >= MOSTLY and not self.is_logger


def timed_spread(m: Measurements, part: Part) -> TimeSpread:
    """How far off a part may be that is known by timed calls or lines."""
    if m.input.loader is not None:
        return even(TIMED_SPREAD)
    whole = sum(m.ledger.total_of(each) for each in m.ledger.timed)
    return even(max(LINES_SPREAD * (1 - m.ledger.total_of(part) / max(whole, 1.0)), TIMED_SPREAD))


def timed_functions(m: Measurements) -> list[TimedFunctions]:
    """Functions that were timed in gaps, with their parts, and what the loop itself does there, if it tells or judges."""
    if m.after_update.gaps is None:
        return []
    found = []
    for function in m.after_update.gaps.functions:
        named = called_in_gap(function).part("output", m.trainer.facts.script)
        parts = tuple(filter(named.is_like, m.ledger.timed))
        if parts:
            found.append(_of_function(m, function, parts))
    found += [_of_direct(call) for call in m.after_update.gaps.direct if call.part in m.ledger.timed]
    line = _of_lines(m)
    return found if line is None else [*found, line]


def _of_function(m: Measurements, function: GapFunction, parts: tuple[Part, ...]) -> TimedFunctions:
    return TimedFunctions(
        parts=parts,
        spread=even(TIMED_SPREAD),
        logging=function.logging,
        metrics=function.metrics,
        calls=function.timed_per_gap,
        within=function.within if m.after_update.outgrown.isdisjoint(parts) else None,
        on_weights=function.averages_weights or function.copies_weights,
        beside_update=holds_update(m, parts[0]),
        lever=stub(m, function.name, function.file),
    )


def _of_direct(call: DirectCall) -> TimedFunctions:
    """What the loop calls of a library, where no stack tells on which line."""
    return TimedFunctions(
        parts=(call.part,),
        spread=even(TIMED_SPREAD),
        logging=1.0 if call.logs else 0.0,
        metrics=0.0 if call.logs else 1.0,
        calls=None,
        within=None,
        lever=LOGGING_OFF if call.logs else None,
    )


def _of_lines(m: Measurements) -> TimedFunctions | None:
    """The loop's own lines that hold most of the gaps, by what the loop calls there; None where that is nothing that tells or judges."""
    direct = m.after_update.gaps.direct if m.after_update.gaps is not None else ()
    named = {part: stacks for part, stacks in m.ledger.gap_stacks.items() if part.stage in RESULT_STAGES}
    places = {part.place for part in named if part.kind is PartKind.LINES}
    if not direct or not places:
        return None

    def parts_at(place: CodePlace | None) -> tuple[Part, ...]:
        return tuple(part for part in named if part.kind is PartKind.LINES and part.place == place)

    parts = parts_at(max(places, key=lambda place: m.ledger.total_of(*parts_at(place))))
    if any(event.part in parts and round(event.every_steps or 1) > 1 for event in m.over_time.events):
        # Not after every step: the advice to call it more seldom is another rule's.
        return None
    per_step = max(m.ledger.total_of(*parts) / m.steps.count, 1.0)
    of_all_lines = sum(m.ledger.total_of(*parts_at(each)) for each in places) / m.steps.count

    def certain(in_libraries_ns: float) -> float:
        """The share of this line that is spent so even if all else that the loop's lines do were here: which line calls what is unknown."""
        return min(max(per_step - max(of_all_lines - in_libraries_ns, 0.0), 0.0) / per_step, 1.0)

    stacks = sum(named[part] for part in parts)
    most = max(direct, key=lambda call: call.ns_per_gap)
    return TimedFunctions(
        parts=parts,
        spread=stack_spread(stacks, sum(named.values())).or_even(TIMED_SPREAD),
        logging=certain(sum(call.ns_per_gap for call in direct if call.logs)),
        metrics=certain(sum(call.ns_per_gap for call in direct if not call.logs)),
        calls=None,
        within=Within(name=most.name, share=certain(most.ns_per_gap)),
        beside_update=holds_update(m, parts[0]),
        lever=LOGGING_OFF if most.logs else None,
    )


def activity_of(m: Measurements, part: Part) -> Activity | None:
    """What the user's function of a part does; of a logger, which is named by its class, that of a method.

    None where its calls were not timed, or only while it took far less than it does.
    """
    if part in m.after_update.outgrown:
        return None
    script = m.trainer.facts.script
    at_place = {
        name: activity
        for (file, name, line), activity in m.after_update.activities.items()
        if CodePlace(shown(file, script), line) == part.place
    }
    by_name = next((activity for name, activity in at_place.items() if part.name in (name, _class_of(name))), None)
    if by_name is not None or len(at_place) != 1 or part.kind is PartKind.LINES:
        return by_name
    # A framework names a callback by the class of the instance: a class in a function, or the base that has the method, is named otherwise.
    return next(iter(at_place.values()))


def _class_of(method: str) -> str:
    """The class of a method, by the method's qualified name, without what the class itself is defined in."""
    return method.rpartition(".")[0].rpartition(".")[2]


def apart_from_update(name: str) -> str:
    """The beginning of an advice for a line that makes the update, too, which is to be made in every step."""
    return f"move what {name} does besides the update to a line of its own, and run that"


def holds_update(m: Measurements, part: Part) -> bool:
    """Whether a line of the loop makes the update, or calls what does: `opt.step(); log()`."""
    script, is_line = m.trainer.facts.script, part.kind is PartKind.LINES
    return is_line and any(CodePlace(shown(frame.file, script), frame.line) == part.place for frame in m.trainer.way_to_update)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedParts:
    """Parts of the ledger that are of one kind, and the one of them with most time."""

    parts: tuple[Part, ...]
    most: Part

    def ns(self, m: Measurements) -> Floats:
        """What they take per step, with what they wait for a core."""
        return np.asarray(np.sum([with_core_delay(m, part) for part in self.parts], axis=0))


def named_by(m: Measurements, kind: PartKind) -> NamedParts | None:
    """The parts of a kind; None where there are none."""
    parts = tuple(part for part in m.ledger.parts if part.kind is kind)
    return NamedParts(parts=parts, most=max(parts, key=m.ledger.total_of)) if parts else None


def better_named(m: Measurements, part: Part) -> bool:
    """Whether another rule names the cause of a part better than its function's name does."""
    return any(part in entry.parts and (entry.is_logger or entry.is_metric) for entry in timed_functions(m))


def costliest(m: Measurements, belongs: Callable[[TimedFunctions], bool]) -> TimedFunctions | None:
    """Of what belongs, that which holds most time; None where nothing does."""
    return max((entry for entry in timed_functions(m) if belongs(entry)), key=lambda entry: m.ledger.total_of(*entry.parts), default=None)


def call_seldom(
    m: Measurements, entry: TimedFunctions, *, rule: str, does: str, what: str, nature: Evidence, fixes: tuple[Fix, ...]
) -> Judged | None:
    """The finding that something runs after every update where once in EVERY steps would do; None where it holds too little.

    `does` and `what` say in the title what it does ("write", "log lines"), `nature` is the evidence for that.
    """
    own = np.sum([with_core_delay(m, part) for part in entry.parts], axis=0)
    removed = own * (1 - 1 / EVERY)
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    counterfactual = shortened(
        m,
        removed,
        entry.spread,
        queued=delay_share(m, *entry.parts),
        assumes=f"{entry.name} {entry.says('run')} once in {EVERY} steps",
        perhaps=made_for(m, *entry.parts),
    )
    spared = after_pauses(m, own, share=1 - 1 / EVERY)
    counterfactual = with_pauses(counterfactual, spared)
    finding = Finding(
        rule=rule,
        stage=max(entry.parts, key=m.ledger.total_of).stage,
        title=f"{part_name_and_place(entry.part)} {entry.says(does)} {what} after every step and {entry.says('take')} "
        f"{format_share(share)} of the time{waits_in_it(m, share, *entry.parts)}",
        opens_with_name=is_named(entry.part),
        share=share,
        share_low=low * entry.spread.low,
        share_high=min(high * entry.spread.high, 1.0),
        claims=entry.parts,
        evidence=(*_evidence(m, entry, share, nature), *longer_after(spared), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=fixes,
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def waits_in_it(m: Measurements, share: float, *parts: Part) -> str:
    """Behind a share that holds what parts wait for a core, where that makes it more than the ledger shows of them."""
    return ", with its waits for a core" if share - m.ledger.share_of(*parts) >= WAITS_SAID else ""


def lever_of(entry: TimedFunctions) -> str | None:
    """What tries that fix: all but one of so many calls of it do nothing."""
    return seldom(entry.lever, EVERY)


def _evidence(m: Measurements, entry: TimedFunctions, share: float, nature: Evidence) -> tuple[Evidence, ...]:
    return (
        named_as(entry.part),
        Evidence(name="after the update", value=share, unit="share of window", threshold=CLAIM),
        nature,
        *within(entry),
        *(() if entry.calls is None else (Evidence(name="calls", value=round(entry.calls, 1), unit="per step"),)),
        timed_in(m, m.after_update.gaps.gaps if m.after_update.gaps is not None else None),
    )


def named_as(part: Part) -> Evidence:
    """As evidence: a function or lines, and where they are."""
    return Evidence(name=part_noun(part), value=part_called(part), unit="", where=part_place(part))


def inner_of(m: Measurements, activity: Activity | None) -> tuple[Evidence, ...]:
    """As evidence: the innermost function of the user's that holds most of it, where its calls were timed."""
    if activity is None or activity.inner is None:
        return ()
    file, name, line = activity.inner
    where = f"{format_share(activity.inner_share)}, {shown(file, m.trainer.facts.script)}:{line}"
    return (Evidence(name="most of it in", value=name, unit="", where=where),)


def within(entry: TimedFunctions) -> tuple[Evidence, ...]:
    """As evidence: what of a library holds most of it."""
    most = entry.within
    if most is None or most.share < MOSTLY:
        return ()
    return (Evidence(name="most of it in", value=most.name, unit="", where=format_share(most.share)),)


def made_for(m: Measurements, *parts: Part) -> Floats | None:
    """Ns per step that may go with what the loop itself calls of a library: where no stack tells its line, none tells either which lines
    make what is told or judged (of 64 prints a step three quarters of the time). None where it is not so, or next to nothing.
    """
    if not any(part.kind is PartKind.LIBRARY_CALL for part in parts) or m.ledger.share_of(NOT_ATTRIBUTED) < CLAIM:
        return None
    return m.ledger.of_parts(NOT_ATTRIBUTED)


def _rebuilt_ns(m: Measurements) -> Floats | float:
    """Ns per step of what is made for the loader in the same gaps."""
    return 0.0 if m.input.rebuilt is None else m.input.rebuilt.ns


def shortened(
    m: Measurements, removed: Floats, spread: TimeSpread, *, queued: float, assumes: str, perhaps: Floats | None = None
) -> Counterfactual:
    """The time after the update without `removed`, which may be off by `spread`; `queued` of it is delay.

    At best `perhaps` (ns per step) goes, too, which is said.
    """
    beside = concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
    gap = m.ledger.of("output") + m.ledger.of("store") - m.ledger.of_parts(COLLECTION) + _rebuilt_ns(m)
    most, delay = np.minimum(removed * spread.high, np.maximum(gap, removed)), queued
    if perhaps is not None:
        assumes = f"{assumes}; at best, all unattributed time prepares its input"
        delay, most = queued * float(most.sum() / (most + perhaps).sum()), most + perhaps
    return Counterfactual(
        assumes=assumes,
        expected=Case(removed_ns=removed, concurrent_ns=beside, delay_share=queued),
        pessimistic=Case(removed_ns=removed * spread.low, concurrent_ns=PESSIMISTIC_BESIDE * beside, delay_share=queued),
        optimistic=Case(removed_ns=most, concurrent_ns=beside, delay_share=delay),
    )
