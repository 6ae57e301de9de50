"""Which loaders are read several batches at a time for one backward: joined into a larger one, packed, filtered, put into a buffer.

A validation is read in a row as well, and a backward follows that row too, the next step's. The two differ in what becomes of the batches:
those of a step are held until all of them are there, and then a model is called with gradients; those of a validation are judged, one by
one or together, before the model trains on anything. Where models' calls were not recorded, how soon the next batch is asked for tells that
nothing was done with one. What is done with them does not matter where nothing else feeds the training, and an iterator is read on from
backward to backward, before each of them: no validation goes on where another one stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.timeline.intervals import Ints

NEVER = np.iinfo(np.int64).max
# The call of the smallest model takes 5.3 us (one linear layer of one value, without gradients, torch 2.13); a loop that leaves a batch out
# asks for the next one within less than 1 us.
WORKED_ON_NS = 5_000
# As docs/definitions.md has it of the boundary of steps: what feeds a training is read before so many of its backwards.
NEARLY_EVERY = 0.95
# A last validation may be followed by a step or two.
FEWEST = 3
# Of a loader's rows, the least that are used for what the loader is there for; a validation may stand in some of them.
MOSTLY = 0.5
# Backwards for an iterator, on average: from so many on it is read on from one to the next.
READ_ON = 2

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRows:
    """What was asked of one loader between two backwards, for each such row: how many batches, and whether they are held for its backward.

    `held`: of several batches, whether nothing was done with one before the last was there; `known` whether models' calls tell so.
    """

    loader: int
    length: Ints
    held: Flags
    known: Flags
    iterators: int
    held_of: frozenset[int]  # the iterators whose batches lie in held rows, most of them
    backwards: int  # from the first row to the last

    @property
    def feeds(self) -> bool:
        """Whether the batches are used by the backwards that follow, and what is read is read before nearly all of them."""
        return self._are_held and self._before_nearly_every(len(self.length))

    @property
    def feeds_alone(self) -> bool:
        """The same where no other loader feeds the training: a buffer may be filled less often then, and what was done with a batch does
        not matter where they are read on.
        """
        told = (self.held & self.known).mean() >= MOSTLY
        is_read_on = len(self.length) >= READ_ON * self.iterators
        return bool(told) or (is_read_on and self._before_nearly_every(len(self.length)))

    @property
    def read_whole(self) -> frozenset[int]:
        """Iterators whose batches are held before nearly every backward: each may have been read whole for one step."""
        return self.held_of if self._before_nearly_every(int(self.held.sum())) else frozenset()

    @property
    def _are_held(self) -> bool:
        # A filter lets some of the batches through at once.
        return bool(self.held.any()) and bool((self.held | (self.length == 1)).mean() >= MOSTLY)

    def _before_nearly_every(self, rows: int) -> bool:
        return len(self.length) >= FEWEST and rows >= NEARLY_EVERY * self.backwards


def find_rows(got: pl.DataFrame, backward: Ints, spans: pl.DataFrame) -> list[RequestRows]:
    """Of each loader of which several batches are asked for between two backwards, by the batches that were received, in order."""
    calls = spans.filter(pl.col("kind") == "forward").sort("start_ns").with_columns(pl.col("gradients").fill_null(True))
    found = []
    for loader in got["loader"].unique(maintain_order=True).to_list():
        rows = _rows_of(got.filter(pl.col("loader") == loader), backward, calls)
        if rows is not None:
            found.append(rows)
    return found


def _rows_of(got: pl.DataFrame, backward: Ints, calls: pl.DataFrame) -> RequestRows | None:
    """Batches after the last backward belong to no row; None where no row has several."""
    start, end = got["start_ns"].to_numpy(), got["end_ns"].to_numpy()
    used_ns = np.append(backward, NEVER)[np.searchsorted(backward, end)]
    final = np.flatnonzero(used_ns < np.append(start[1:], NEVER))
    first = np.append(0, final + 1)[: len(final)]
    length = final - first + 1
    if not (length > 1).any():
        return None
    begun: Ints = calls["start_ns"].to_numpy()
    next_call = np.searchsorted(begun, end[final], side="right")
    known = np.append(begun, NEVER)[next_call] < used_ns[final]
    undisturbed = np.searchsorted(begun, end[first], side="right") == next_call
    trains = np.append(calls["gradients"].to_numpy().astype(np.bool_), False)[next_call] | _called_with_all(
        got, calls, first, final, used_ns
    )
    at_once = _asked_at_once(start, end, first, final)
    held = (length > 1) & np.where(known, undisturbed & trains, at_once)
    of_batch = np.append(held, False)[np.searchsorted(final, np.arange(got.height))]
    shares = got.select("iterator", held=pl.Series(of_batch)).group_by("iterator").agg(pl.col("held").mean())
    return RequestRows(
        loader=int(got["loader"][0]),
        length=length,
        held=held,
        known=known,
        iterators=shares.height,
        held_of=frozenset(shares.filter(pl.col("held") >= MOSTLY)["iterator"].to_list()),
        backwards=int(np.searchsorted(backward, used_ns[final[-1]], side="right") - np.searchsorted(backward, end[0])),
    )


def _called_with_all(got: pl.DataFrame, calls: pl.DataFrame, first: Ints, final: Ints, used_ns: Ints) -> Flags:
    """Which rows end in a call with gradients of a model, on as many samples as they hold: it may have been asked about them before."""
    samples = np.append(0, np.cumsum(got["samples"].fill_null(0).to_numpy()))
    whole = samples[final + 1] - samples[first]
    own = calls.filter("gradients")
    begun, sizes = own["start_ns"].to_numpy(), own["samples"].fill_null(-1).to_numpy()
    row = np.searchsorted(got["end_ns"].to_numpy()[final], begun, side="right") - 1
    inside = (row >= 0) & (begun < np.append(used_ns[final], 0)[row])
    found = np.zeros(len(final), np.bool_)
    found[row[inside & (np.append(whole, -2)[row] == sizes)]] = True
    return found


def _asked_at_once(start: Ints, end: Ints, first: Ints, final: Ints) -> Flags:
    """In which rows each batch is asked for, in most cases, before anything can have been done with the one before."""
    soon = np.append(0, np.cumsum(np.append(start[1:] - end[:-1] < WORKED_ON_NS, False)))
    return np.asarray(soon[final] - soon[first] >= MOSTLY * (final - first))
