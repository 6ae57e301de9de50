"""Growth: whether steps get longer over the run, and which part of them grows with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.ledger.ledger import Ledger, with_core_delay_by_step
from slowstep.analyses.over_time.even_pace import WorkPace, pace_of
from slowstep.analyses.over_time.pace import work_of_model
from slowstep.analyses.over_time.written import WrittenBytes
from slowstep.analyses.python.functions import Path, Stacks, is_library
from slowstep.analyses.python.loop import LoopCall, called_from_loop
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.trends import Trend, find_trend
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.parts import MODELS, Part, PartKind
from slowstep.stages import RESULT_STAGES

# Parts under this share of the window are not looked at: their growth cannot matter.
SMALLEST_SHARE = 0.01
# Of the stacks of a function, so many must stand in code that encodes or writes files, for it to be called a file that grows.
WRITING = 0.3
# Standard library and packages that turn objects into what files hold, or write them: encoding a growing list is where the time goes.
FILE_WRITERS = re.compile(
    r"[/\\](json|pickle|csv|shelve|pathlib|shutil|logging|gzip|zipfile|yaml|tensorboardX?)([/\\]\w+)*\.py$"
    r"|[/\\]matplotlib[/\\]backends[/\\]|[/\\]numpy[/\\]lib[/\\](_)?npyio|[/\\]pandas[/\\]io[/\\]|[/\\]PIL[/\\]"
    rf"|{code(Code.WRITES).pattern}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartGrowth:
    """A part of the step that grows over the run."""

    part: Part
    trend: Trend
    first_ns: float  # at the first update, by its line
    above_ns: Floats  # per step: what the part takes more than that
    writes_share: float | None  # of the part's stacks, those in code that writes or encodes files; None without stacks
    is_models: bool  # it is the forward or the backward
    both: bool  # and the other one surely grows too


def find_growth(
    ledger: Ledger, steps: Steps, stacks: Stacks, trainer: Trainer, known: Sequence[Part], written: WrittenBytes | None
) -> PartGrowth | None:
    """The part that surely grows most; None where none does."""
    best: PartGrowth | None = None
    calls: list[_Called] | None = None
    pace = pace_of(work_of_model(ledger))
    for part in ledger.parts:
        ns = ledger.of_parts(part)
        if part in known or part.kind in (PartKind.CORE_WAIT, PartKind.PRODUCER_CORE_WAIT) or ns.sum() < SMALLEST_SHARE * ledger.ns.sum():
            continue
        trend = trend_at_even_pace(ledger, part, pace)
        if trend is None or (best is not None and trend.growth <= best.trend.growth):
            continue
        calls = _calls_of_loop(steps, stacks, trainer) if calls is None else calls
        writes = _writes_share(part, calls, trainer)
        if written is not None and written.grows and is_writer(part, writes):
            # That it has ever more to do is known.
            trend = replace(trend, growth_low=trend.growth_likely)
        if trend.growth_low <= 0:
            continue
        queued = float(with_core_delay_by_step(ledger, part).sum() / ns.sum())
        first = _at_the_very_first(trend, steps, trainer)
        above = np.clip(ns - first, 0, None) * queued
        best = PartGrowth(part=part, trend=trend, first_ns=first, above_ns=above, writes_share=writes, is_models=part in MODELS, both=False)
    if best is None or not best.is_models:
        return best
    trends = [_trend(ledger.of_parts(part), None) for part in MODELS]
    return replace(best, both=all(trend is not None and trend.growth_low > 0 for trend in trends))


def is_writer(part: Part, writes_share: float | None) -> bool:
    """Whether a part mostly encodes or writes files, by its stacks."""
    return part.stage in RESULT_STAGES and (writes_share or 0.0) >= WRITING


def trend_at_even_pace(ledger: Ledger, part: Part, pace: WorkPace | None) -> Trend | None:
    """The trend of a part beside the pace of the training's own work; None with too few steps."""
    return _trend(ledger.of_parts(part), None if part.stage == "compute" else pace)


def _trend(ns: Floats, pace: WorkPace | None) -> Trend | None:
    """The trend of a part. A machine that becomes faster or slower on the way changes the training's own work too, which does not grow:
    growth may be certain in the part's time at an even pace, and in its time where that work does not take ever longer itself.

    That work's own parts have no such `pace`: a graph that is never let go makes forward and backward longer together.
    """
    plain = find_trend(ns)
    beside = None if pace is None else find_trend(pace.evened(ns))
    if plain is None or pace is None or beside is None:
        return plain
    # Where that work shrinks, the part's time in terms of it grows by nothing of its own.
    beside = replace(beside, growth_low=min(beside.growth_low, plain.growth), growth_likely=min(beside.growth_likely, plain.growth))
    if pace.slows:
        return replace(plain, growth_low=beside.growth_low, growth_likely=beside.growth_likely)
    surer = max(plain, beside, key=lambda trend: (trend.growth_low, trend.growth_likely))
    return replace(surer, growth_likely=max(plain.growth_likely, beside.growth_likely))


def _at_the_very_first(trend: Trend, steps: Steps, trainer: Trainer) -> float:
    """The line, drawn back to the first update: what grows has grown during the warm-up too."""
    before = int(np.searchsorted(trainer.update_end_ns, steps.edges_ns[0], side="right"))
    return max(trend.first - trend.growth * before / steps.count, 0.0)


@dataclass(frozen=True, slots=True)
class _Called:
    """What the loop was doing in a stack, for how long, and whether that was in code that encodes or writes files."""

    call: LoopCall
    weight_ns: float
    writes: bool


def _calls_of_loop(steps: Steps, stacks: Stacks, trainer: Trainer) -> list[_Called]:
    """Of each stack of the window that tells it."""
    way = trainer.way_to_update
    inside = np.flatnonzero((stacks.time_ns >= steps.edges_ns[0]) & (stacks.time_ns < steps.edges_ns[-1]))
    paths = stacks.paths(inside.tolist()) if way else []
    told = ((called_from_loop(path, way, trainer.loops_beside), weight, path) for weight, path in paths if path)
    return [_Called(call, weight, _writes_file(path)) for call, weight, path in told if call is not None]


def _writes_share(part: Part, calls: Sequence[_Called], trainer: Trainer) -> float | None:
    total = writing = 0.0
    for called in calls:
        if called.call.part(part.stage, trainer.facts.script) == part:
            total += called.weight_ns
            writing += called.weight_ns * called.writes
    return writing / total if total else None


def _writes_file(path: Path) -> bool:
    return any(is_library(frame) and FILE_WRITERS.search(frame.file) for frame in path)
