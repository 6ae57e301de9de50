"""Start-up: the time between the start of the command and the end of the first update, divided by what is known of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from slowstep.analyses.over_time.startup_functions import COMPILE, NOWHERE, divide_startup
from slowstep.analyses.python.functions import read_stacks
from slowstep.analyses.python.span_names import names_of
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import DEFAULT
from slowstep.parts import PartKind
from slowstep.stages import COMPILATION
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

BEFORE = "before the import of {}"
IMPORT = "import of {}"
SCRIPT = "other imports, data and model"
# Of these what has no name.
OTHERS = "other work before training"
LOADER = "loader start-up"
FIRST_BATCH = "first batches"
VALIDATION = "validation before training"
FIRST_STEP = "first step"
# Of a framework that compiles each function that it runs.
COMPILES = "compiling"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartupPart:
    """A named stretch of the start-up."""

    name: str
    ns: int
    is_import: bool = False  # of a library


@dataclass(frozen=True, kw_only=True, slots=True)
class Startup:
    """The parts of the start-up in the order in which they come; they sum to it."""

    parts: tuple[StartupPart, ...]
    excess_ns: int | None  # of the first step over the median of all; None where the run holds none

    @property
    def ns(self) -> int:
        """The whole start-up."""
        return sum(part.ns for part in self.parts)

    @property
    def beyond_a_step(self) -> tuple[StartupPart, ...]:
        """The same, of the first step only what it takes longer than others: the rest is training."""
        excess = self.excess_ns
        return tuple(replace(part, ns=excess) if part.name == FIRST_STEP and excess is not None else part for part in self.parts)


def find_startup(timeline: Timeline, trainer: Trainer, usual_step_ns: float) -> Startup | None:
    """The start-up of a run; None where the launcher's start is not known, or another training came before this one."""
    began = timeline.run.started_ns
    first_update = int(trainer.update_end_ns[0])
    if not began or began >= first_update or (trainer.elsewhere is not None and trainer.elsewhere.before):
        return None
    note = trainer.facts.notes.get("startup") or {}
    activated = _between(note.get("activated_ns"), began, first_update)
    importing = _between(note.get("import_began_ns"), began, activated or first_update)
    first_event = min(max(_first_event(trainer), activated or began), first_update)
    marks = [(began, importing, BEFORE), (importing or began, activated, IMPORT)]
    framework = trainer.facts.framework or DEFAULT
    parts = [
        StartupPart(name=name.format(framework), ns=end - start, is_import=name == IMPORT)
        for start, end, name in marks
        if end is not None and end > start
    ]
    parts += _of_script(timeline, trainer, activated or importing or began, first_event)
    parts = _merged([*parts, *_of_training(trainer, first_event, first_update)])
    first_step = next((part.ns for part in parts if part.name == FIRST_STEP), None)
    excess = None if first_step is None else max(first_step - round(usual_step_ns), 0)
    return Startup(parts=tuple(parts), excess_ns=excess)


def _merged(parts: Iterable[StartupPart]) -> list[StartupPart]:
    """One part for each name: the script's first use of a framework imports more of it."""
    merged: dict[str, StartupPart] = {}
    for part in parts:
        known = merged.get(part.name)
        merged[part.name] = part if known is None else replace(known, ns=known.ns + part.ns)
    return list(merged.values())


def _of_script(timeline: Timeline, trainer: Trainer, begin: int, end: int) -> list[StartupPart]:
    """What the script does until it asks for its first batch: divided by stacks, where there are some."""
    if end <= begin:
        return []
    shares = divide_startup(read_stacks(timeline, trainer.process), trainer.facts.script, begin, end) or {NOWHERE: 1.0}
    others = OTHERS if len(shares) > 1 else SCRIPT
    return [
        StartupPart(name=held.name or others, ns=round(share * (end - begin)), is_import=held.is_import) for held, share in shares.items()
    ]


def _between(value: int | None, low: int, high: int) -> int | None:
    return value if value is not None and low <= value <= high else None


def _first_event(trainer: Trainer) -> int:
    tables = (trainer.starts, trainer.other_starts, trainer.waits, trainer.other_waits, trainer.spans, trainer.all_updates)
    return min(int(table["start_ns"].min()) for table in tables if table.height)  # type: ignore[arg-type]


def _of_training(trainer: Trainer, begin: int, end: int) -> list[StartupPart]:
    """The stretch from the first thing recorded to the first update's end: loaders, batches, a first validation, and the step itself."""
    validation = _validating(trainer, begin, end)
    loader, batches = _covered(trainer.starts, begin, end), _covered(trainer.waits, begin, end)
    compiled = _covered(trainer.spans.filter(pl.col("name").is_in(names_of(PartKind.COMPILING))), begin, end)
    functions = _covered(trainer.spans.filter(pl.col("name").str.starts_with(COMPILATION)), begin, end)
    known = ((LOADER, loader), (VALIDATION, validation), (FIRST_BATCH, batches), (COMPILE, compiled), (COMPILES, functions))
    named = (*known, (FIRST_STEP, max(end - begin - sum(ns for _, ns in known), 0)))
    return [StartupPart(name=name, ns=ns) for name, ns in named if ns > 0]


def _validating(trainer: Trainer, begin: int, end: int) -> int:
    """From the first request to another loader to the last: what is done with its batches included."""
    starts, ends = trainer.asked_of_others_ns
    inside = (starts >= begin) & (ends <= end)
    return int(ends[inside].max() - starts[inside].min()) if inside.any() else 0


def _covered(spans: pl.DataFrame, begin: int, end: int) -> int:
    start: Ints = np.clip(spans["start_ns"].to_numpy(), begin, end)
    stop: Ints = np.clip(spans["end_ns"].to_numpy(), begin, end)
    return int((stop - start).sum())
