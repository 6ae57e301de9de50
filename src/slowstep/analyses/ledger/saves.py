"""Checkpoints: what is written in one step is one of them, of however many files, and each file is compared with its like in others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.frameworks._known import plain
from slowstep.parts import Part, PartKind
from slowstep.timeline.intervals import Ints

# The same model's checkpoints differ by some bytes (numbers as text); half as large again is no accident, nor four of five that grow.
FEWEST_SAVES = 5
GROWING_SHARE = 0.8
GROWN = 1.5
# What tells a checkpoint's files apart: who wrote them, for whom, and which of several.
_FILE = ("name", "file", "line", "number")


@dataclass(frozen=True, kw_only=True, slots=True)
class Saves:
    """Checkpoints inside the window."""

    count: int
    every_steps: float | None
    writes_each: float | None  # files, or calls that write; None where only a framework says that it wrote
    bytes_each: float | None  # of all files of one
    where: str | None  # the user's line that asks for most of them, and what writes


@dataclass(frozen=True, kw_only=True, slots=True)
class GrowingSaves:
    """Files of checkpoints that grow from one to the next."""

    count: int  # checkpoints that hold them
    first_bytes: float
    last_bytes: float
    above_ns: Floats  # per step: what their writing takes longer than that of the first ones
    parts: tuple[Part, ...]  # of the ledger, that hold it


def find_saves(trainer: Trainer, steps: Steps, ledger: Ledger) -> Saves:
    """The checkpoints of the window's steps."""
    writes = find_writes(trainer, steps)
    if writes.is_empty():
        count = len(saving_steps(ledger))
        return Saves(count=count, every_steps=steps.count / count if count else None, writes_each=None, bytes_each=None, where=None)
    checkpoints = writes.group_by("step").agg(pl.len().alias("writes"), pl.col("bytes").sum(), pl.col("bytes").has_nulls().alias("unknown"))
    size = checkpoints.filter(~pl.col("unknown"))["bytes"].to_numpy()
    return Saves(
        count=checkpoints.height,
        every_steps=steps.count / checkpoints.height,
        writes_each=writes.height / checkpoints.height,
        bytes_each=float(np.median(size)) if len(size) else None,
        where=_where(writes, trainer.facts.script),
    )


def find_growing_saves(trainer: Trainer, steps: Steps) -> GrowingSaves | None:
    """The files of which nearly each is larger than its like in the checkpoint before; None where there are none."""
    writes = find_writes(trainer, steps)
    growing = [file for _, file in writes.group_by(_FILE, maintain_order=True) if _grows(file)]
    if not growing:
        return None
    above = np.zeros(steps.count)
    for file in growing:
        length = (file["end_ns"] - file["start_ns"]).to_numpy().astype(np.float64)
        np.add.at(above, file["step"].to_numpy(), np.clip(length - length[0], 0, None))
    return GrowingSaves(
        count=max(file.height for file in growing),
        first_bytes=float(sum(file["bytes"][0] for file in growing)),
        last_bytes=float(sum(file["bytes"][-1] for file in growing)),
        above_ns=above,
        parts=tuple(dict.fromkeys(saving_part(file["name"][0]) for file in growing)),
    )


def saving_part(function: str | None) -> Part:
    """The part of the ledger that is the writing by a function."""
    return Part("store", PartKind.SAVE, function or plain().saver)


def is_saving(part: Part) -> bool:
    """Whether a part of the ledger is the making of checkpoints: the writing itself, or what is done around that by the function that asks
    for it, or by a framework.
    """
    return part.stage == "store" and part.kind in (PartKind.SAVE, PartKind.SAVING_FUNCTION, PartKind.CHECKPOINT)


def saving_steps(ledger: Ledger) -> Ints:
    """The steps with checkpoints: those that write; where no write was seen, those of the framework's part that holds most time.

    Its other parts may be in every step: a callback that only asks itself whether to save.
    """
    parts = [part for part in ledger.parts if is_saving(part)]
    writing = [part for part in parts if part.kind is PartKind.SAVE]
    most = sorted(parts, key=lambda part: -ledger.total_of(part))[:1]
    return np.flatnonzero(ledger.of_parts(*(writing or most)) > 0)


def find_writes(trainer: Trainer, steps: Steps) -> pl.DataFrame:
    """The writes in the window's steps, with the number of the step, and which of those of its kind a write is in it."""
    saves = trainer.spans.filter(pl.col("kind") == "save").sort("start_ns")
    stretch, inside = steps.step_at(saves["start_ns"].to_numpy())
    step = (np.cumsum(~steps.excluded) - 1)[np.where(inside, stretch, 0)]
    found = saves.with_columns(pl.Series("step", step)).filter(pl.Series(inside, dtype=pl.Boolean))
    return found.with_columns(pl.int_range(pl.len()).over("step", "name", "file", "line").alias("number"))


def _where(writes: pl.DataFrame, script: str | None) -> str | None:
    """The user's line that most time went into, and the functions that wrote for it; only these where no line is known."""
    lines = writes.group_by("file", "line").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"), pl.col("name").unique().sort())
    row = lines.sort("ns").row(-1, named=True)
    functions = ", ".join(filter(None, row["name"])) or None
    return functions if row["file"] is None else f"{shown(row['file'], script)}:{row['line']} ({functions})"


def _grows(file: pl.DataFrame) -> bool:
    if file.height < FEWEST_SAVES or file["bytes"].has_nulls():
        return False
    size = file["bytes"].to_numpy().astype(np.float64)
    return bool((np.diff(size) > 0).mean() >= GROWING_SHARE and size[-1] >= GROWN * size[0])
