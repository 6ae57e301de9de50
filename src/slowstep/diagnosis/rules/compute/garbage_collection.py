"""Python's garbage collector keeps stopping the training thread.

What it sees:
    Collections of a tenth of a millisecond and more on the training thread hold at least 3 % of the window, wherever they occur: in the
    model's own code, in callbacks, in the making of a batch. Those that the script asks for (gc.collect()) are distinguished from those
    that Python begins by itself, and their line is named.
Why it costs:
    To find what nothing can reach, the collector walks through every list, dict and object of the generations that it collects, and through
    what they hold: a list of 80,000 numbers is 80,000 visits, each time. The more a script keeps, the longer each collection takes.
How the gain is predicted:
    r is the time of the collections, less one full collection in 500 steps (in 250 at worst, none at best), which finds what
    stands in circles. Of a script that asks for most of it, r is what those calls take but for one in 500 steps. B is what the loader's
    workers need per step.
When it is wrong:
    Shorter collections are charged to what they interrupt, and those on other threads, which hold the GIL meanwhile, to
    what waits for it. With the collector off, objects that refer to each other in a circle stay until gc.collect() is called: watch the
    memory. Keeping fewer objects gains more than the collections, because making them takes time too.
What to try:
    Tensors or arrays in place of lists of numbers; keep sums and not every value. gc.freeze() after the set-up, so that what is there
    then is never walked again. gc.disable() before the loop, and gc.collect() every k steps or once an epoch.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.garbage import OLDEST, Collected, Garbage
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.parts import COLLECTION
from slowstep.reasons import Wording
from slowstep.shares import MOSTLY
from slowstep.units import format_share

NAME = "garbage-collection"
# A full collection in so many steps lets go of what stands in circles; of a step's objects, most are let go without one.
EVERY = 500
EVERY_PESSIMISTIC = 250

COLLECTIONS_NOT_RECORDED = Wording("collections-not-recorded", "garbage collections were not recorded")


def judge(m: Measurements) -> Answer:
    """Whether the training thread spends its time on collecting garbage."""
    garbage = m.python.garbage
    if not garbage.recorded:
        return NotJudged(rule=NAME, reason=COLLECTIONS_NOT_RECORDED(), advisory=True)
    if not garbage.kinds:
        return None
    share, low, high = share_interval(m, with_core_delay(m, COLLECTION))
    if share < CLAIM:
        return None
    # Who asked for most of the time: the fix is another.
    asked = _asked_share(garbage) >= MOSTLY
    counterfactual = _counterfactual(m, garbage, asked=asked)
    finding = Finding(
        rule=NAME,
        stage="output",
        title=_title(m, garbage, share, asked=asked),
        share=share,
        share_low=low,
        share_high=high,
        claims=(COLLECTION,),
        evidence=_evidence(m, garbage, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(garbage, asked=asked),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _asked_share(garbage: Garbage) -> float:
    asked = sum(kind.total_ns for kind in garbage.kinds if kind.asked)
    return asked / sum(kind.total_ns for kind in garbage.kinds)


def _counterfactual(m: Measurements, garbage: Garbage, *, asked: bool) -> Counterfactual:
    taken = with_core_delay(m, COLLECTION) * (_asked_share(garbage) if asked else 1.0)
    mean = float(taken.mean())

    def case(every: int | None, factor: float = 1.0) -> Case:
        left = 0.0 if every is None else min(_full(garbage, asked=asked).each_ns / every, mean)
        removed = taken * (1 - left / mean)
        beside = factor * concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=delay_share(m, COLLECTION))

    return Counterfactual(
        assumes=f"there were one full collection in {EVERY} steps" + (" on request" if asked else ", and no other"),
        expected=case(EVERY),
        pessimistic=case(EVERY_PESSIMISTIC, PESSIMISTIC_BESIDE),
        optimistic=case(None),
    )


def _full(garbage: Garbage, *, asked: bool) -> Collected:
    """What a full collection takes: of the kind that walks the oldest objects, or of the longest kind where none did."""
    kinds = [kind for kind in garbage.kinds if kind.asked or not asked]
    return max(kinds, key=lambda kind: (kind.generation, kind.each_ns))


def _title(m: Measurements, garbage: Garbage, share: float, *, asked: bool) -> str:
    if asked:
        where = f" ({garbage.asked_at})" if garbage.asked_at else ""
        return f"the script calls the garbage collector itself{where}: {format_share(share)} of the time"
    mean_ms = sum(kind.total_ns for kind in garbage.kinds) / garbage.count / 1e6
    often = f"{_per_100(m, garbage.count):.3g} times in 100 steps"
    return f"Python's garbage collector stops the training {often}, {mean_ms:.3g} ms each: {format_share(share)} of the time"


def _per_100(m: Measurements, count: int) -> float:
    return 100 * count / m.steps.count


def _evidence(m: Measurements, garbage: Garbage, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    workers_ms = garbage.in_workers_ns / 1e6
    return (
        Evidence(name="collecting garbage", value=share, unit="share of window", threshold=CLAIM),
        *(row for kind in garbage.kinds for row in _of_kind(m, garbage, kind)),
        Evidence(name="objects freed", value=round(garbage.let_go / garbage.count), unit="per collection"),
        *((Evidence(name="workers collect", value=workers_ms, unit="ms per step"),) if workers_ms else ()),
        saved_by(m, counterfactual),
    )


def _of_kind(m: Measurements, garbage: Garbage, kind: Collected) -> tuple[Evidence, ...]:
    # Only full collections, of generation 2, are known to be asked for.
    which = "asked for" if kind.asked else f"of generation {kind.generation}"
    name, one = f"collections {which}", f"each {which}"
    where = garbage.asked_at if kind.asked else None
    return (
        Evidence(name=name, value=_per_100(m, kind.count), unit="in 100 steps", where=where),
        Evidence(name=one, value=kind.each_ns / 1e6, unit="ms", where=f"the longest {kind.longest_ns / 1e6:.3g} ms"),
    )


def _fixes(garbage: Garbage, *, asked: bool) -> tuple[Fix, ...]:
    keep = Fix(text="keep fewer Python objects: tensors or arrays in place of lists of numbers, running sums in place of every value")
    if asked:
        return Fix(text=f"call gc.collect() once in {EVERY} steps, once an epoch, or not at all"), keep
    every = f"gc.disable() before the loop, and gc.collect() once in {EVERY} steps or once an epoch; watch the memory"
    if any(kind.generation == OLDEST for kind in garbage.kinds):
        return Fix(text=every), keep, Fix(text="gc.freeze() after the set-up: what is there by then is not walked again")
    return Fix(text=every), keep


RULE = Rule(name=NAME, stages=("output",), topics=("compute", "input", "ledger", "machine", "python", "steps"), judge=judge)
