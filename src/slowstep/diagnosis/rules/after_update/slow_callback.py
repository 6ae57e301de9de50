"""A function that runs after the update keeps the next step waiting.

What it sees:
    Stacks of the training thread between the end of an update, or of the backward of one of several batches, and the next request for
    input name a function of the user's (or a line of the training loop, of what it calls of torch only a model) that holds at least 3 %
    of the window. Callbacks, loggers and metrics that Lightning or Hugging Face's Trainer call are timed exactly, wherever in the step
    they run. In a trace: a range that somebody has named, outside the model; with a device those inside steps in which it had nothing to
    do, at least 5 % of the window (between steps they are gaps-between-steps').
Why it costs:
    Whatever is done with results on the training thread - plots, images, metrics, logging - is done instead of training.
How the gain is predicted:
    r is the time of that function on the training thread, with what it takes inside the steps, where calls that were timed there name it
    too. B is what the loader's workers need per step, not below the CPU time of what is left divided by the cores. On a processor the step
    after it gets shorter, too: where it is not in every step by what steps after it take longer than their neighbours, else by what
    followed pauses of other trainings, at worst by nothing. In a trace the step is shorter by r: one thread does all, and what workers need
    is not in it. With a device the steps are replayed without what is charged to output.
When it is wrong:
    The gap's length is exact, what ran in it is sampled: a share of few stacks is uncertain, and the interval says so. If the function only
    waits for something that would be waited for anyway, removing it moves the wait. What it makes may be needed by the training at once
    (priorities of samples, features for a memory): no rule sees that. Of several functions the largest is judged; the next one is named
    with it, and what both would gain together is not predicted. What holds most of it is not said of one that grows and whose calls were
    timed while it took far less. How much longer a step takes after the thread did something else differs by model and machine: up to 3 ms
    were seen, and next to nothing. The loader's batches that the thread makes itself get cheaper as well, which is not predicted.
What to try:
    Call it every k steps or give the work to a background thread or process, where nothing needs it after every step; or do less in it.
    What less is, its timed calls show: of a loop in Python (which may be all that a function does that calls nothing) operations on whole
    tensors or arrays (a thread would hold the GIL), of pictures fewer or smaller ones. One that mostly writes to a file: gather, and write
    every k steps. One that prints or logs for a quarter of its time or more: print or log less. For Keras' model.predict the model itself,
    called on the batch.
"""

from __future__ import annotations

import re
from functools import partial

from slowstep.analyses.after_update.activities import Activity, ActivityKind
from slowstep.analyses.ledger.saves import is_saving
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.after_pause import after_pauses, longer_after, with_pauses
from slowstep.diagnosis.evidence.after_update import (
    TimedFunctions,
    activity_of,
    apart_from_update,
    better_named,
    holds_update,
    inner_of,
    made_for,
    named_as,
    shortened,
    timed_functions,
    timed_spread,
    waits_in_it,
    within,
)
from slowstep.diagnosis.evidence.growing import growing, is_blamed
from slowstep.diagnosis.evidence.in_both import InBoth, in_both, of_both
from slowstep.diagnosis.evidence.profiled.named_ranges import CALLBACKS, ranges
from slowstep.diagnosis.evidence.record_longer import record_longer
from slowstep.diagnosis.evidence.spread import TimeSpread, stack_spread
from slowstep.diagnosis.evidence.timed_in import timed_in
from slowstep.diagnosis.evidence.trainer_side import delay_share, with_core_delay
from slowstep.diagnosis.evidence.unnamed import are_notes_lost, how_to_name
from slowstep.diagnosis.gain import Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import CALLBACKS_OFF, LOGGING_OFF, stub_of
from slowstep.diagnosis.provider import Details, HeldTime, Provided, Provider, Unsure
from slowstep.diagnosis.rule import CLAIM, Answer, Rule, judge_provided
from slowstep.findings import Evidence, EvidenceCode, Fix
from slowstep.frameworks._known import does_for_less
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.part_words import is_named, is_plural, part_called, part_name, part_name_and_place, part_place
from slowstep.parts import BODY, Part, PartKind
from slowstep.reasons import Wording
from slowstep.stages import RESULT_STAGES, UNATTRIBUTED
from slowstep.units import format_share

NAME = "slow-callback"
UNNAMED = 0.10
# What is no callback's doing; metrics are judged by per-step-metrics.
OTHERS = (PartKind.CORE_WAIT, PartKind.SMALL_CALLBACKS, PartKind.VALIDATION, PartKind.COLLECTION, PartKind.METRICS)
AFTER = "after the update"
# Calls of a file, of Python's own and of the system's (posix.fsync): each waits for the kernel or the disk, however little is in it.
WRITING = re.compile(r"(?:^|[.\s])(?:fsync|fdatasync|sync|flush|write|writelines|pwrite)$")
# What makes text, which no operation on tensors does.
TEXT = re.compile(r"^(str\.|(format|repr)$)")
# A state that the script keeps (a memory bank, priorities, a count of results) is wrong without one step.
IF_NOT_NEEDED = "where nothing needs it after every step"
# From so much on that goes into printing and logging, the rest puts together what is printed: lines that format it count to neither.
TELLS = 0.25
# A thread gains nothing of what keeps the GIL.
LOCKED = (ActivityKind.LOOP, ActivityKind.INTERPRETER)
# Less of what a function is busy with.
LESS = {
    ActivityKind.INTERPRETER: ": less data, or operations on whole tensors or arrays",
    ActivityKind.OWN_LINES: ": where it is a loop in Python, operations on whole tensors or arrays",
    ActivityKind.ARRAYS: ": fewer operations, on smaller tensors or arrays",
    ActivityKind.PICTURES: ": fewer images, or smaller ones",
    ActivityKind.COMPRESSING: ": less to compress, or a lower level",
}

NO_STACKS_AFTER_UPDATE = Wording("no-stacks-after-update", "no stack sample shows what runs after the updates; {remedy}")


def judge(m: Measurements) -> Answer:
    """Whether one function, or one named range, beside the model holds the training thread."""
    return judge_provided(m, NAME, PROVIDERS)


def _by_functions(m: Measurements) -> Provided:
    """What one function after the update holds of the training thread."""
    beside = {part: count for part, count in m.ledger.gap_stacks.items() if part.stage in RESULT_STAGES}
    named = {part: count for part, count in beside.items() if part.kind is not PartKind.VALIDATION and not is_saving(part)}
    unnamed = [part for part in m.ledger.parts if part.stage in RESULT_STAGES and part not in named]
    spans = [part for part in unnamed if part.kind not in OTHERS and not is_saving(part)]
    candidates = [*named, *spans]
    if not candidates:
        if m.ledger.share(UNATTRIBUTED) >= UNNAMED:
            if are_notes_lost(m):
                return Unsure(reason=how_to_name(m))
            tell = how_to_name(m) if m.python.has_stacks else record_longer(m)
            return Unsure(reason=NO_STACKS_AFTER_UPDATE(remedy=tell))
        return None
    # Where another rule says better what a function is, the next one is worth a line of its own.
    unsaid = [p for p in candidates if not better_named(m, p) and m.ledger.share_of(p) >= CLAIM]
    part = max(unsaid or candidates, key=m.ledger.total_of)
    growth = growing(m)
    if growth is not None and growth.part == part and is_blamed(m, growth):
        # Its time grows with the run: growing-file and growing-step-time say more of it.
        return None
    known = (part, part if growth is None else growth.part)
    more = [p for p in unsaid if not any(map(p.is_like, known)) and _share(m, p) * _spread(m, p, named).low >= CLAIM]
    return _held_by(m, part, named, max(more, key=m.ledger.total_of, default=None))


def _held_by(m: Measurements, part: Part, named: dict[Part, int], following: Part | None) -> HeldTime:
    """What one part takes, and what its function takes inside the steps, where it was seen there too; `named` are all that stacks named.

    The one that takes most after it is said, and is not in the gain.
    """
    spread = _spread(m, part, named)
    held = in_both(m, part, with_core_delay(m, part), spread)
    counterfactual = _without(m, part, spread, held)
    share, low, high = share_interval(m, counterfactual.expected.removed_ns)
    return HeldTime(
        share=share,
        low=low * spread.low if held is None else share_interval(m, held.low)[1],
        high=min(high * spread.high if held is None else share_interval(m, held.high)[2], 1.0),
        at_least=CLAIM,
        details=partial(_of_function, m, part, named, following, share, held, counterfactual),
    )


def _of_function(
    m: Measurements,
    part: Part,
    named: dict[Part, int],
    following: Part | None,
    share: float,
    held: InBoth | None,
    counterfactual: Counterfactual,
) -> Details:
    stacks, timed = named.get(part), m.ledger.timed.get(part)
    spared = after_pauses(m, with_core_delay(m, part))
    counterfactual = with_pauses(counterfactual, spared)
    where = _where(m, held) if stacks or timed else ""
    ran = f"on the training thread {where}".rstrip()
    entry = next((entry for entry in timed_functions(m) if part in entry.parts), None)
    evidence = (
        named_as(part),
        Evidence(name=_name_of_share(m, held, where, ran), value=share, unit="share of window", threshold=CLAIM),
        *_most_of_it(m, part, entry),
        *_known_by(m, timed, stacks, sum(named.values())),
        *_next(m, following),
        *longer_after(spared),
        saved_by(m, counterfactual),
    )
    return Details(
        stage=part.stage,
        title=f"{part_name_and_place(part)} {_does(part)} {ran} and {_takes(part)} {format_share(share)} of the time"
        f"{waits_in_it(m, share, part)}{_more(m, following)}",
        opens_with_name=is_named(part),
        claims=_claims(m, part) if held is None else (*_claims(m, part), BODY),
        evidence=evidence,
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=_fixes(m, part, entry),
        names_cause=not better_named(m, part),
    )


def _without(m: Measurements, part: Part, spread: TimeSpread, held: InBoth | None) -> Counterfactual:
    """Steps without the part, and without what its function takes inside them, where it was seen there."""
    what = f"what {part_name(part)} does besides the update" if holds_update(m, part) else part_name(part)
    assumes = f"{what} took no time on the training thread"
    own = with_core_delay(m, part)
    counterfactual = shortened(m, own, spread, queued=delay_share(m, part), assumes=assumes, perhaps=made_for(m, part))
    return counterfactual if held is None else of_both(counterfactual, held)


def _next(m: Measurements, part: Part | None) -> tuple[Evidence, ...]:
    """What takes most of the time after the one that is judged."""
    if part is None:
        return ()
    share, where = _share(m, part), part_place(part)
    return (Evidence(name=f"next after it: {part_called(part)}", value=share, unit="share of window", threshold=CLAIM, where=where),)


def _more(m: Measurements, part: Part | None) -> str:
    """The same at the end of the title."""
    return "" if part is None else f"; {part_name_and_place(part)} {_takes(part)} {format_share(_share(m, part))} more"


def _share(m: Measurements, part: Part) -> float:
    return share_interval(m, with_core_delay(m, part))[0]


def _spread(m: Measurements, part: Part, named: dict[Part, int]) -> TimeSpread:
    return timed_spread(m, part) if m.ledger.timed.get(part) else stack_spread(named.get(part, 0), sum(named.values()))


def _where(m: Measurements, held: InBoth | None) -> str:
    """Where in the step it runs, as far as that is known."""
    if not _runs_between_batches(m):
        return AFTER if held is None else "before the update and after it"
    return "between batches or after the update" if held is None else "between batches and before the update"


def _runs_between_batches(m: Measurements) -> bool:
    """Whether so much time is between batches that what runs after the update may as well run there."""
    between = m.ledger.between
    return between is not None and float(between.gaps_ns.sum()) >= CLAIM * m.ledger.whole


def _name_of_share(m: Measurements, held: InBoth | None, where: str, ran: str) -> str:
    """What its share is called: by the place where all of that is, if there is one; empty `where`: it is not known."""
    if not where:
        return ran
    return AFTER if held is None and not _runs_between_batches(m) else "time in it"


def _most_of_it(m: Measurements, part: Part, entry: TimedFunctions | None) -> tuple[Evidence, ...]:
    """What holds most of it: the innermost function of the user's, else one of a library."""
    return inner_of(m, activity_of(m, part)) or (within(entry) if entry is not None else ())


def _does(part: Part) -> str:
    return "logs" if part.kind is PartKind.LOGGING else "run" if is_plural(part) else "runs"


def _takes(part: Part) -> str:
    return "take" if is_plural(part) else "takes"


def _fixes(m: Measurements, part: Part, entry: TimedFunctions | None) -> tuple[Fix, ...]:
    """What is advised depends on what kind of callback it is, on how often it is called already, and on what it does."""
    name, lever, activity = part_name(part), _lever(m, part), activity_of(m, part)
    if part.kind is PartKind.LOGGING:
        how = m.training.words.write({Remedy.LOGGING_STEPS: ...}) or "an if around the call"
        interval = f"log every k steps ({how}), or {_aside(activity)}"
        return Fix(text=interval, lever=lever), Fix(text=_log_less(name, activity))
    if part.kind is PartKind.PROGRESS_BAR and m.training.words.has(Remedy.PROGRESS_BAR):
        bar = f"leave out the progress bar: {m.training.words.write({Remedy.PROGRESS_BAR: False})}"
        return Fix(text=bar, lever=lever), Fix(text=f"call {name} every k steps")
    if part.kind is PartKind.CALLBACK and (otherwise := does_for_less(part.name or "")) is not None:
        return Fix(text=otherwise), Fix(text=f"call {name} every k steps, {IF_NOT_NEEDED}")
    every = next((event.every_steps for event in m.over_time.events if event.part == part), None)
    often = f"less often than every {round(every)} steps" if every is not None and round(every) > 1 else "every k steps"
    if part.kind is PartKind.LINES:
        return _fixes_of_lines(part, entry, often, holds_update=holds_update(m, part))
    if _is_on_weights(m, part, entry):
        return _fixes_on_weights(m.training.words, part, often, lever)
    if entry is not None and entry.prints and part.kind is PartKind.LIBRARY_CALL:
        return (Fix(text=f"print or log less, or call {name} {often}", lever=lever),)
    seldom = Fix(text=f"call {name} {often}, or {_aside(activity)}, {IF_NOT_NEEDED}", lever=lever)
    if (printed := _print_less(name, entry, "its")) is not None:
        return seldom, Fix(text=printed)
    if activity is not None and activity.kind is ActivityKind.LOOP:
        return _as_operations(_inner_name(activity) or name, lever), seldom
    return seldom, Fix(text=_less(name, activity))


def _fixes_of_lines(part: Part, entry: TimedFunctions | None, often: str, *, holds_update: bool) -> tuple[Fix, ...]:
    """Of the loop's own lines: what is printed in a loop is no work for operations on tensors."""
    name, are_lines = part_name(part), is_plural(part)
    printed = _print_less(name, entry, "their" if are_lines else "its")
    if printed is not None and not holds_update:
        return (Fix(text=f"{printed}, or run {'them' if are_lines else 'it'} {often}"),)
    first = (Fix(text=printed),) if printed is not None else (_as_operations(name, None),) if are_lines else ()
    run = apart_from_update(name) if holds_update else f"run {name}"
    return (*first, Fix(text=f"{run} {often}, or {_aside(None, 'their' if are_lines else 'its')}, {IF_NOT_NEEDED}"))


def _print_less(name: str, entry: TimedFunctions | None, whose: str) -> str | None:
    """The advice for what prints or logs much; None where it does not, or that is not known."""
    if entry is None or entry.logging < TELLS:
        return None
    return f"print or log less in {name} ({format_share(entry.logging)} of {whose} time)"


def _aside(activity: Activity | None, whose: str = "its") -> str:
    if activity is not None and activity.kind in LOCKED:
        return f"hand {whose} work to a background process (a thread would hold the GIL)"
    if activity is not None and activity.kind is ActivityKind.OWN_LINES:
        return f"hand {whose} work to a background process (a thread would hold the GIL if it is a loop in Python)"
    return f"hand {whose} work to a background thread or process"


def _as_operations(name: str, lever: str | None) -> Fix:
    return Fix(text=f"write the loop in {name} as operations on whole tensors or arrays", lever=lever)


def _inner_name(activity: Activity) -> str | None:
    return None if activity.inner is None else activity.inner[1]


def _is_on_weights(m: Measurements, part: Part, entry: TimedFunctions | None) -> bool:
    """Whether it works on the model's weights: then a background thread would do so while the next step uses them."""
    if entry is not None:
        return entry.on_weights
    gaps = m.after_update.gaps if part.kind is PartKind.CALLBACK else None
    return gaps is not None and (part.name or "").rpartition(".")[2] in gaps.on_weights


def _fixes_on_weights(words: Words, part: Part, often: str, lever: str | None) -> tuple[Fix, ...]:
    name = part_name(part)
    if part.kind is PartKind.CALLBACK and part.place is None:
        # A framework's own code, which is not the user's to change.
        at_once = words.advise(Remedy.AVERAGED_BY_FRAMEWORK)
        return (
            Fix(text=f"call {name} {often} (its update_every_n_steps, if it takes that)", lever=lever),
            Fix(text=f"let it average all tensors at once ({at_once}) in place of one by one"),
        )
    # Timed calls do not tell one from the other surely: operators on weights may do either.
    at_once = words.advise(Remedy.AVERAGE_AT_ONCE)
    all_at_once = f"all tensors at once ({at_once}) in place of one by one"
    return (Fix(text=f"do less in {name}: {all_at_once}", lever=lever), Fix(text=f"call {name} {often}", lever=lever))


def _log_less(name: str, activity: Activity | None) -> str:
    """The advice for a logger, besides to be called more seldom: only one that is not known may flush."""
    if activity is None:
        return f"hand {name} fewer values, and ask it to flush less often"
    if activity.kind is ActivityKind.LOOP:
        return _as_operations(_inner_name(activity) or name, None).text
    if activity.kind is None and activity.inner is None and not _writes(activity):
        return f"hand {name} fewer values{_held(activity)}"
    return _less(name, activity)


def _held(activity: Activity) -> str:
    return "" if activity.within is None else f" ({activity.within.name} holds {format_share(activity.within.share)} of it)"


def _writes(activity: Activity) -> bool:
    return activity.within is not None and bool(WRITING.search(activity.within.name))


def _less(name: str, activity: Activity | None) -> str:
    """The advice for what must be called after every update: by what most of it is done."""
    if activity is None:
        return f"do less in {name}"
    held = _held(activity)
    if _writes(activity):
        return f"let {name} gather what it writes, and write it every k steps; no flush or fsync in between{held}"
    return f"do less in {_inner_name(activity) or name}{_of_what(activity)}{held}"


def _of_what(activity: Activity) -> str:
    if activity.kind is ActivityKind.INTERPRETER and activity.within is not None and TEXT.search(activity.within.name):
        return ": less text"
    return "" if activity.kind is None else LESS.get(activity.kind, "")


def _known_by(m: Measurements, timed: int | None, stacks: int | None, of: int) -> tuple[Evidence, ...]:
    if timed:
        return (timed_in(m, timed),)
    if not stacks:
        return ()
    where = f"of {of} after updates"
    return (Evidence(name="stack samples in it", value=stacks, unit="samples", where=where, code=EvidenceCode.STACKS),)


def _claims(m: Measurements, part: Part) -> tuple[Part, ...]:
    """The part, and what else the same function does, where some of that is in another stage."""
    return tuple(dict.fromkeys((part, *filter(part.is_like, m.ledger.parts))))


def _lever(m: Measurements, part: Part) -> str | None:
    """What makes the part take no time: a framework's callback is switched off by its name, a function of the user's does nothing."""
    if part.kind is PartKind.CALLBACK:
        return f"{CALLBACKS_OFF}={(part.name or '').partition('.')[0]}"
    return LOGGING_OFF if part.kind in (PartKind.PROGRESS_BAR, PartKind.LOGGING) else stub_of(m, part)


PROVIDERS = (
    ranges(CALLBACKS),
    Provider(topics=("after_update", "compute", "input", "machine", "over_time", "python", "trainer"), find=_by_functions),
)
RULE = Rule(name=NAME, stages=("output", "store"), topics=("ledger", "steps", "training"), providers=PROVIDERS, judge=judge)
