"""How much of the training's sequences is padding: by the batches that were looked at, and what shorter ones would be left.

What is taken for padding: places that a mask of the same shape marks, all of which hold one value; or runs of one value at the end (or the
beginning) of sequences, of several lengths, where that value stands nowhere else in any sequence that was looked at. Counts of words,
categories and features have their zeros anywhere; blocks of a text have no such run. Where the tokens of the same places have none, what
has one are labels, of which the loss leaves some out (those of a question, say).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.input.padded_work import Exponents, PaddedWork, find_padded_work
from slowstep.analyses.input.place_layout import OFF_BY, Batch
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# Without a mask: of fewer sequences, values or lengths chance may give such runs, as of features that are seldom there.
FEWEST_LOOKS = 3
FEWEST_SEQUENCES = 64
FEWEST_VALUES = 3
FEWEST_LENGTHS = 5
# A short run at the end of a few sequences is how they end.
SHORTEST_LEFT = 0.75
# A sampler that sorts by length does so within a few batches at least.
SORTED_AT_LEAST = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """What is left of all places with shorter sequences, 0 to 1: of what grows with the length, and with its square."""

    places: float
    squares: float

    def of(self, exponents: Exponents) -> float:
        """What is left of work of which shares grow with the length and with its square; the rest stays."""
        return 1 - exponents.linear * (1 - self.places) - exponents.square * (1 - self.squares)


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """Of one array of sequences in the training's batches, or of several that are as long. Means over the batches that were looked at."""

    batches: int
    length: float  # places of a sequence, as given
    longest: float  # that the longest sequence of a batch fills
    rows: float  # sequences in a batch
    padded: float  # share of all places
    by_mask: bool
    value: int | None
    to_longest: Left  # each batch no longer than its longest sequence
    bucketed: Left  # besides, sequences of like length in one batch
    partly: Left  # the same, sorted within a few batches only
    unpadded: Left  # no place is padding
    work: PaddedWork | None  # what of forward and backward grows with the length; None where no graph tells

    @property
    def is_dynamic(self) -> bool:
        """Whether batches are no longer than their longest sequence already."""
        return self.longest >= 0.98 * self.length


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddingLook:
    """`looks`: batches of the training that were looked at. `found`: those of their sequences that have padding, most places first."""

    looks: int
    found: tuple[Padding, ...]


def find_padding(timeline: Timeline, trainer: Trainer) -> PaddingLook | None:
    """By the batches of the loaders that feed the training; None where none was looked at."""
    rows = timeline.table("padded_batches").filter(
        pl.col("process") == trainer.process, pl.col("iterator").is_in(trainer.waits["iterator"].unique().to_list())
    )
    if rows.is_empty():
        return None
    loaders = timeline.table("iterators").filter(pl.col("process") == trainer.process).select("iterator", "loader").unique("iterator")
    of_loaders = rows.join(loaders, on="iterator", how="left").partition_by("loader")
    arrays = [array for of_loader in of_loaders for array in _padded_arrays(of_loader)]
    shapes = timeline.table("graph_shapes").filter(pl.col("process") == trainer.process)
    weights = trainer.facts.graph_elements or 0
    return PaddingLook(looks=rows["time_ns"].n_unique(), found=tuple(_measured(array, shapes, weights) for array in _distinct(arrays)))


def _padded_arrays(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Of the batches of one loader."""
    looks = rows["time_ns"].n_unique()
    ending = rows.filter(pl.col("lengths").is_not_null()).partition_by("array")
    return [_whole(array, rows) for array in ending if _is_padding(array, looks) and not _are_labels(array, rows)]


def _distinct(arrays: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """One of those that have as many places, or shifted by one, as tokens and what is to be said of them: by a mask, where one has it."""
    found: list[pl.DataFrame] = []
    for array in sorted(arrays, key=lambda array: (not array["mask"].any(), int(array["array"][0]))):
        if not any(_are_alike(array, other) for other in found):
            found.append(array)
    return sorted(found, key=_places, reverse=True)


def _are_alike(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether the same dimensions of a graph would be taken for the length of both."""
    (rows, length), (other_rows, other_length) = (
        [float(array[name].mean() or 0.0) for name in ("rows", "length")]  # type: ignore[arg-type]
        for array in (one, other)
    )
    return round(rows) == round(other_rows) and abs(length - other_length) <= OFF_BY


def _is_padding(array: pl.DataFrame, looks: int) -> bool:
    if array["value"].n_unique() > 1 or array["at_end"].n_unique() > 1 or looks < FEWEST_LOOKS or 2 * array.height < looks:
        return False
    if array["mask"].all():
        return True
    lengths = array["lengths"].explode()
    is_clear = not (array["inside"] > 0).any() and (array["values"] >= FEWEST_VALUES).any()
    shortest = float((array["lengths"].list.min() / array["length"]).min() or 0.0)  # type: ignore[arg-type]
    return is_clear and len(lengths) >= FEWEST_SEQUENCES and lengths.n_unique() >= FEWEST_LENGTHS and shortest <= SHORTEST_LEFT


def _are_labels(array: pl.DataFrame, rows: pl.DataFrame) -> bool:
    """Whether another array of as many places never ends in a run; by a mask tokens may end whatever else stands there (their positions),
    but no token is negative.
    """
    if array["mask"].all() and (array["value"] >= 0).any():
        return False
    full = rows.filter(pl.col("lengths").is_null().all().over("array"))
    return 2 * full.join(array, on=["time_ns", "rows", "length"], how="semi")["time_ns"].n_unique() >= array.height


def _places(array: pl.DataFrame) -> float:
    return float((array["rows"] * array["length"]).mean() or 0.0)  # type: ignore[arg-type]


def _whole(array: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """With the batches whose sequences all fill it."""
    number = array["array"][0]
    full = rows.filter(pl.col("array") == number, pl.col("lengths").is_null())
    full = full.with_columns(lengths=pl.concat_list(pl.col("length")))
    return pl.concat([array, full]).sort("time_ns")


def _measured(array: pl.DataFrame, shapes: pl.DataFrame, weights: int) -> Padding:
    length, rows = (array[name].to_numpy().astype(np.float64) for name in ("length", "rows"))
    lengths = [np.asarray(each, dtype=np.float64) for each in array["lengths"].to_list()]
    longest = np.array([each.max() for each in lengths])
    size = max(round(float(rows.mean())), 1)
    groups = [lengths[at : at + SORTED_AT_LEAST] for at in range(0, len(lengths), SORTED_AT_LEAST)]
    filled, places = np.concatenate(lengths), np.repeat(length, [len(each) for each in lengths])
    return Padding(
        batches=array.height,
        length=float(length.mean()),
        longest=float(longest.mean()),
        rows=float(rows.mean()),
        padded=1 - float(sum(rows * [each.mean() for each in lengths]) / (rows * length).sum()),
        by_mask=bool(array["mask"].any()),
        value=array["value"].drop_nulls().first(),  # type: ignore[arg-type]
        to_longest=_left(longest, length),
        bucketed=_left(_bucketed(lengths, size), length),
        partly=_left(np.concatenate([_bucketed(group, size) for group in groups]), length),
        unpadded=_left(filled, places),
        work=find_padded_work(shapes, _batches(array), weights),
    )


def _batches(array: pl.DataFrame) -> list[tuple[int, Batch]]:
    found = []
    for time_ns, rows, length, lengths in array.select("time_ns", "rows", "length", "lengths").iter_rows():
        # Of the rows of a large batch some were looked at.
        filled = sum(lengths) if len(lengths) == rows and sum(lengths) < rows * length else None
        found.append((time_ns, Batch(rows=rows, length=length, filled=filled, longest=max(lengths))))
    return found


def _left(shorter: Floats, length: Floats) -> Left:
    return Left(
        places=min(float(shorter.mean() / length.mean()), 1.0),
        squares=min(float((shorter**2).mean() / (length**2).mean()), 1.0),
    )


def _bucketed(lengths: list[Floats], rows: int) -> Floats:
    """The longest of each batch where the sequences of all batches seen are divided by their length."""
    pooled = np.sort(np.concatenate(lengths))[::-1]
    return pooled[::rows]
