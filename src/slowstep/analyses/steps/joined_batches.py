"""Which loaders are read several batches at a time for one backward: joined into a larger one, packed, filtered, put into a buffer.

A validation is read in a row as well, and a backward follows that row too, the next step's. The two differ in what becomes of the batches:
those of a step are held until all of them are there, and then a model is called with gradients; those of a validation are judged, one by
one or together, before the model trains on anything. Where models' calls were not recorded, how soon the next batch is asked for tells that
nothing was done with one; a validation that collects its batches does nothing with one either, and begins a new iterator, so that beside
another loader only what is read on from backward to backward is input then. Where nothing else feeds the training, all that is read on
before each backward is input, whatever is done with it, but for what a model is judged by in its evaluation mode: an endless iterator may
serve validations as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.calibration import python_lines
from slowstep.shares import MOSTLY
from slowstep.timeline.intervals import Flags, Ints

NEVER = np.iinfo(np.int64).max
# A loop that leaves a batch out asks for the next one sooner than the smallest model is called.
WORKED_ON_NS = int(python_lines.SMALLEST_MODEL.value)
# As docs/definitions.md has it of the boundary of steps: what feeds a training is read before so many of its backwards.
NEARLY_EVERY = 0.95
# A last validation may be followed by a step or two.
FEWEST = 3
# Backwards for an iterator, on average: from so many on it is read on from one to the next.
READ_ON = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRows:
    """What was asked of one loader between two backwards, for each such row: how many batches, and whether they are kept for its backward.

    `collected`: of several batches, whether nothing was done with one before the last was there; `known` whether models' calls tell so;
    `judged` whether the model that trains was called on them in its evaluation mode, and not trained on all of them afterwards.
    """

    loader: int
    length: Ints
    collected: Flags
    known: Flags
    judged: Flags
    is_read_on: bool  # an iterator serves several rows
    collected_of: frozenset[int]  # the iterators whose batches lie in collected rows, most of them
    backwards: int  # from the first row to the last

    @property
    def feeds(self) -> bool:
        """Whether the batches are used by the backwards that follow, and what is read is read before nearly all of them."""
        is_told = self.is_read_on or bool((self.collected & self.known).any())
        return is_told and self._are_collected and self._before_nearly_every(len(self.length))

    @property
    def feeds_without_others(self) -> bool:
        """The same where no other loader feeds the training: a buffer may be filled less often then, and all that is read on is input."""
        # Of a loader's rows, the least that are used for what the loader is there for; a validation may stand in some of them.
        if (self.collected & self.known).mean() >= MOSTLY:
            return True
        if self.is_read_on:
            return self._before_nearly_every(int((~self.judged).sum()))
        return self._are_collected and self._before_nearly_every(len(self.length))

    @property
    def read_whole(self) -> frozenset[int]:
        """Iterators whose batches are collected before nearly every backward: each may have been read whole for one step."""
        return self.collected_of if self._before_nearly_every(int(self.collected.sum())) else frozenset()

    @property
    def _are_collected(self) -> bool:
        # A filter lets some of the batches through at once.
        return bool(self.collected.any()) and bool((self.collected | (self.length == 1)).mean() >= MOSTLY)

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
    is_read_on = len(length) >= READ_ON * got["iterator"].n_unique()
    # A validation of as many samples as a step has is followed by such a call too.
    with_all = _called_with_all(got, calls, first, final, used_ns) & is_read_on
    trains = np.append(calls["gradients"].to_numpy().astype(np.bool_), False)[next_call] | with_all
    at_once = _asked_at_once(start, end, first, final)
    collected = (length > 1) & np.where(known, undisturbed & trains, at_once)
    of_batch = np.append(collected, False)[np.searchsorted(final, np.arange(got.height))]
    shares = got.select("iterator", collected=pl.Series(of_batch)).group_by("iterator").agg(pl.col("collected").mean())
    return RequestRows(
        loader=int(got["loader"][0]),
        length=length,
        collected=collected,
        known=known,
        judged=_evaluated_by(calls, end[first], used_ns[final]) & ~with_all,
        is_read_on=is_read_on,
        collected_of=frozenset(shares.filter(pl.col("collected") >= MOSTLY)["iterator"].to_list()),
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


def _evaluated_by(calls: pl.DataFrame, from_ns: Ints, until_ns: Ints) -> Flags:
    """In which stretches of time a model that is trained as well is called in its evaluation mode."""
    trained = calls.filter("gradients")["module"].unique()
    own = calls.filter(pl.col("evaluating").fill_null(False), pl.col("module").is_in(trained.implode()))
    begun = own["start_ns"].to_numpy()
    return np.asarray(np.searchsorted(begun, until_ns) > np.searchsorted(begun, from_ns))


def _asked_at_once(start: Ints, end: Ints, first: Ints, final: Ints) -> Flags:
    """In which rows each batch is asked for, in most cases, before anything can have been done with the one before."""
    soon = np.append(0, np.cumsum(np.append(start[1:] - end[:-1] < WORKED_ON_NS, False)))
    return np.asarray(soon[final] - soon[first] >= MOSTLY * (final - first))
