"""Start-up: the time between the start of the command and the end of the first update, divided by what is known of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from slowstep.analyses.over_time.startup_functions import NOWHERE, divide_startup
from slowstep.analyses.over_time.startup_parts import StartupKind, StartupPart
from slowstep.analyses.python.functions import read_stacks
from slowstep.analyses.python.span_names import names_of
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import DEFAULT
from slowstep.parts import PartKind
from slowstep.stages import COMPILATION
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline


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
        if excess is None:
            return self.parts
        return tuple(replace(part, ns=excess) if part.kind is StartupKind.FIRST_STEP else part for part in self.parts)


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
    marks = [(began, importing, StartupKind.BEFORE_IMPORT), (importing or began, activated, StartupKind.IMPORT)]
    framework = trainer.facts.framework or DEFAULT
    parts = [StartupPart(kind=kind, of=framework, ns=end - start) for start, end, kind in marks if end is not None and end > start]
    parts += _of_script(timeline, trainer, activated or importing or began, first_event)
    parts = _merged([*parts, *_of_training(trainer, first_event, first_update)])
    first_step = next((part.ns for part in parts if part.kind is StartupKind.FIRST_STEP), None)
    excess = None if first_step is None else max(first_step - round(usual_step_ns), 0)
    return Startup(parts=tuple(parts), excess_ns=excess)


def _merged(parts: Iterable[StartupPart]) -> list[StartupPart]:
    """One part of each kind for what it is of: the script's first use of a framework imports more of it."""
    merged: dict[tuple[StartupKind, str | None], StartupPart] = {}
    for part in parts:
        known = merged.get((part.kind, part.of))
        merged[part.kind, part.of] = part if known is None else replace(known, ns=known.ns + part.ns)
    return list(merged.values())


def _of_script(timeline: Timeline, trainer: Trainer, begin: int, end: int) -> list[StartupPart]:
    """What the script does until it asks for its first batch: divided by stacks, where there are some."""
    if end <= begin:
        return []
    shares = divide_startup(read_stacks(timeline, trainer.process), trainer.facts.script, begin, end)
    if shares and shares.keys() != {NOWHERE}:
        return [StartupPart(kind=held.kind, of=held.of, ns=round(share * (end - begin))) for held, share in shares.items()]
    return [StartupPart(kind=StartupKind.SCRIPT, ns=end - begin)]


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
    known = (
        (StartupKind.LOADER, loader),
        (StartupKind.VALIDATION, validation),
        (StartupKind.FIRST_BATCHES, batches),
        (StartupKind.COMPILING, compiled),
        (StartupKind.FUNCTIONS_COMPILED, functions),
    )
    found = (*known, (StartupKind.FIRST_STEP, max(end - begin - sum(ns for _, ns in known), 0)))
    return [StartupPart(kind=kind, ns=ns) for kind, ns in found if ns > 0]


def _validating(trainer: Trainer, begin: int, end: int) -> int:
    """From the first request to another loader to the last: what is done with its batches included."""
    starts, ends = trainer.asked_of_others_ns
    inside = (starts >= begin) & (ends <= end)
    return int(ends[inside].max() - starts[inside].min()) if inside.any() else 0


def _covered(spans: pl.DataFrame, begin: int, end: int) -> int:
    start: Ints = np.clip(spans["start_ns"].to_numpy(), begin, end)
    stop: Ints = np.clip(spans["end_ns"].to_numpy(), begin, end)
    return int((stop - start).sum())
