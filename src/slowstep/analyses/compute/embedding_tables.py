"""Embedding tables that the training's optimizers hold: how large they are, and how much of them a step touches.

Known from graphs of backward passes that were looked at (frameworks/torch/inside/_autograd/embedding_tables.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from slowstep.analyses.steps.trainer import Trainer


@dataclass(frozen=True, kw_only=True, slots=True)
class Updater:
    """An optimizer that holds tables. None is unknown."""

    number: int
    kind: str
    share: float  # of the time of all optimizers' calls
    elements: int  # of its parameters
    tensors: int
    is_fused: bool
    has_momentum: bool | None
    decays: bool | None  # its weights


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingTable:
    """One table. Counts are of a step, in the mean over passes that were looked at but for `ids`."""

    rows: int
    width: int
    item_bytes: int
    ids: int | None  # rows that a step takes at most, each as often as it is taken; None where it is not known
    lookups: float  # that rows are taken, each of which makes a gradient
    backward_ns: float | None  # CPU time of making those; None where it was not measured
    is_sparse: bool  # its gradient
    is_dense_anyway: bool  # it is used as a whole too, or as no sparse gradient is known of
    updater: Updater | None  # None where it is not known

    @property
    def elements(self) -> int:
        """Of all of it."""
        return self.rows * self.width

    @property
    def gradient_bytes(self) -> int:
        """What a dense gradient of it takes."""
        return self.elements * self.item_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingTables:
    """What was found in so many passes."""

    looks: int
    found: tuple[EmbeddingTable, ...]


def find_embedding_tables(trainer: Trainer) -> EmbeddingTables | None:
    """None where no whole graph was looked at."""
    note: Mapping[str, Any] = trainer.facts.notes["tables"]
    looks = int(note.get("looks", 0))
    if looks < 1:
        return None
    updaters = _updaters(trainer)
    passes = trainer.backwards_per_step
    found = (_table(table, looks, passes, updaters.get(table.get("optimizer"))) for table in note["tables"])
    return EmbeddingTables(looks=looks, found=tuple(found))


def _table(note: Mapping[str, Any], looks: int, passes: float, updater: Updater | None) -> EmbeddingTable:
    a_step = passes * min(note["seen"] / looks, 1.0)
    ids, backward_ns = note.get("ids"), note.get("backward_ns")
    return EmbeddingTable(
        rows=note["rows"],
        width=note["width"],
        item_bytes=note["item_bytes"],
        ids=None if ids is None else round(ids * max(passes, 1.0)),
        lookups=note["lookups"] * a_step,
        backward_ns=None if backward_ns is None else backward_ns * a_step,
        is_sparse=note["is_sparse"],
        is_dense_anyway=note["is_dense_anyway"],
        updater=updater,
    )


def _updaters(trainer: Trainer) -> dict[int | None, Updater]:
    """Optimizers whose calls are the training's, by their numbers, of which it is known what they hold."""
    calls = trainer.outer_updates.group_by("optimizer").agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"))
    took = dict(zip(calls["optimizer"].to_list(), calls["ns"].to_list(), strict=True))
    whole = max(sum(took.values()), 1)
    return {
        number: Updater(
            number=number,
            kind=str(note.get("type", "")),
            share=took[number] / whole,
            elements=note["params"],
            tensors=note.get("tensors") or 0,
            is_fused=note.get("fused") is True,
            has_momentum=note.get("momentum"),
            decays=note.get("decays"),
        )
        for note in trainer.facts.notes["optimizers"]
        if (number := note.get("id")) in took and note.get("params")
    }
