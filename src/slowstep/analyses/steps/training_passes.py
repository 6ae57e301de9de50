"""Which passes feed the training. A pass is what one iterator gives: it is numbered anew at each of its starts, kept workers or not.

A loader is the training's by what most of its batches are used for. Nearly every script reads that loader for something else as well: for
the accuracy on the training data, for averaged batch norms, for neighbours. Such a pass is no input of the training, and trains on none of
its samples: it goes where a validation goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.steps.joined_batches import NEVER, WORKED_ON_NS, RequestRows, find_rows
from slowstep.timeline.intervals import Flags, Ints

# Of the requests for input those that gave a batch, not the end of a pass or an error.
GAVE_BATCH = ~pl.col("exhausted") & ~pl.col("failed")
# A loader feeds the training when at least half of its batches are used by a backward: of batches asked for in a row, as many as there are
# backwards before anything else is asked for (gradients are accumulated over batches asked for together). A validation's are used by
# none, except one of each pass.
FEEDS_SHARE = 0.5
# In a pass that trains nothing one batch may seem to be used: a loop that asks ahead works on its own batch after it.
SEEMS_USED = 1.0
# Backward passes for a batch, at most, on average: a pair of networks has two; one that is read once for a whole training has thousands.
MOST_FOR_A_BATCH = 8
# A validation calls its model once for each batch, or for the batch and its mirror image.
CALLS_TO_JUDGE = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPasses:
    """The loaders that feed the training, and the passes that do not, of whichever loader they are."""

    loader_of: dict[int, int]  # by iterator
    loaders: frozenset[int]
    aside: frozenset[int]
    joined: frozenset[int] = frozenset()  # of those loaders, whose batches are asked for several at a time for one backward

    def feed(self, iterators: pl.Series) -> pl.Series:
        """Which of these iterators' passes are the training's."""
        loader = iterators.replace_strict(self.loader_of, default=-1, return_dtype=pl.Int64)
        return loader.is_in(list(self.loaders)) & ~iterators.is_in(list(self.aside))

    def steps_per_batch(self, waits: pl.DataFrame, update_end_ns: Ints) -> float:
        """Updates from one batch to the next of the loader that is read most seldom, by the training's requests: above 1 where loaders take
        turns, and where batches serve for several updates.
        """
        loader = waits["iterator"].replace_strict(self.loader_of, default=-1, return_dtype=pl.Int64)
        got = waits.with_columns(loader=loader).filter(GAVE_BATCH).sort("start_ns")
        each = got.group_by("loader").agg(
            pl.len().alias("n"), pl.col("end_ns").first().alias("first"), pl.col("end_ns").last().alias("last")
        )
        steps = np.searchsorted(update_end_ns, each["last"]) - np.searchsorted(update_end_ns, each["first"])
        return float(max(steps / np.maximum(each["n"].to_numpy() - 1, 1), default=1.0))


def find_training_passes(
    waits: pl.DataFrame, spans: pl.DataFrame, loader_of: dict[int, int], updates: int, calls_ns: Ints | None = None
) -> TrainingPasses:
    """Tell them by the requests and spans of the training thread, in order, and how often the anchor optimizer updated.

    `calls_ns`: when calls of a framework began that train as a whole, shape (calls,), in order; they stand for backward passes, of which
    there are none then.
    """
    loader = waits["iterator"].replace_strict(loader_of, default=-1, return_dtype=pl.Int64)
    got = waits.with_columns(loader=loader).filter(GAVE_BATCH)
    if got.is_empty():
        return TrainingPasses(loader_of=loader_of, loaders=frozenset(), aside=frozenset())
    backward = np.sort(spans.filter(pl.col("kind") == "backward")["start_ns"].to_numpy()) if calls_ns is None else calls_ns
    rows = find_rows(got.filter(~pl.col("validation")), backward, spans)
    whole = [iterator for of in rows for iterator in of.read_whole]
    unused = _unused(got, backward, spans).filter(~pl.col("iterator").is_in(whole))
    kept = got.filter(~pl.col("iterator").is_in(unused["iterator"].implode()))
    loaders, joined = _training_loaders(kept, backward, spans, dict(got.group_by("loader").len().iter_rows()), updates, rows)
    # Before anything is trained on, a loop that goes on where another one stopped leaves out whole passes.
    first = int(backward[0]) if len(backward) else NEVER
    aside = unused.filter((pl.col("worked_ns") >= WORKED_ON_NS) | (pl.col("start_ns") > first))
    return TrainingPasses(loader_of=loader_of, loaders=loaders, aside=frozenset(aside["iterator"].to_list()), joined=joined)


def _unused(got: pl.DataFrame, backward: Ints, spans: pl.DataFrame) -> pl.DataFrame:
    """The passes that train nothing, with their begin, and how long is usual from one of their batches to the next request.

    A pass of a single batch that no backward follows may as well be one that the script left out (a loss that is not finite): it is one of
    these only where the model was in its evaluation mode.
    """
    batches = got.with_columns(
        used=pl.Series(_used_in_pass(got, backward)),
        evaluated=pl.Series(_evaluated(got, spans)),
        worked_ns=pl.col("start_ns").shift(-1) - pl.col("end_ns"),
    )
    passes = batches.group_by("iterator").agg(
        pl.len().alias("n"), pl.col("start_ns").min(), pl.col("used").sum(), pl.col("evaluated").any(), pl.col("worked_ns").median()
    )
    seems_unused = (pl.col("used") <= SEEMS_USED) & (pl.col("used") < FEEDS_SHARE * pl.col("n"))
    return passes.filter(seems_unused, (pl.col("n") > 1) | pl.col("evaluated"))


def _used_in_pass(got: pl.DataFrame, backward: Ints) -> NDArray[np.float64]:
    """For each batch, which part of its row is used, where a row ends with its pass, and the requests of other passes do not matter: of two
    loaders read one after the other the first is used as well. A pass's last batch is used before its loader is asked again.
    """
    following = pl.coalesce(pl.col("start_ns").shift(-1).over(of) for of in ("iterator", "loader"))
    rows = got.with_columns(following.alias("following"), pl.col("start_ns").shift(-1).alias("any")).with_row_index("at")
    rows = rows.with_columns(pl.coalesce("following", "any", pl.lit(NEVER)).alias("following")).sort("iterator", "start_ns")
    end, limit = rows["end_ns"].to_numpy(), rows["following"].to_numpy()
    iterator = rows["iterator"].to_numpy()
    backwards = np.searchsorted(backward, limit) - np.searchsorted(backward, end)
    last = (backwards > 0) | (np.append(iterator[1:], -2) != iterator)
    used = np.empty(len(end))
    used[rows["at"].to_numpy()] = _part_of_rows(last, backwards)
    return used


def _evaluated(got: pl.DataFrame, spans: pl.DataFrame) -> Flags:
    """On which batches a model is called in its evaluation mode before the next request; calls are not recorded in every training."""
    calls = spans.filter(pl.col("kind") == "forward", pl.col("evaluating").fill_null(False))
    batch, inside = _batch_of(calls, got["end_ns"].to_numpy(), np.append(got["start_ns"].to_numpy()[1:], NEVER))
    found = np.zeros(got.height, np.bool_)
    found[batch[inside]] = True
    return found


def _training_loaders(
    got: pl.DataFrame, backward: Ints, spans: pl.DataFrame, batches: dict[int, int], updates: int, rows: list[RequestRows]
) -> tuple[frozenset[int], frozenset[int]]:  # fmt: skip
    """The loaders that feed the training, by the batches of passes that train; `batches` are those of each loader in all its passes. And
    those of them whose batches are joined.
    """
    loader: NDArray[Any] = got["loader"].to_numpy()
    end, start = got["end_ns"].to_numpy(), got["start_ns"].to_numpy()
    trains = ~_only_judged(loader, backward, end, start, spans)
    direct = _used(loader, backward, end, start) * trains

    def fewest(i: int) -> float:
        # One batch that is looked at, beside passes that train nothing, is not what feeds hundreds of updates.
        return FEEDS_SHARE * min(batches[i], updates)

    used = {int(i): direct[loader == i] for i in np.unique(loader)}
    training = {i for i, of in used.items() if of.mean() >= FEEDS_SHARE and of.sum() >= fewest(i)}
    joined = {of.loader: len(of.length) for of in rows if of.loader in set(used) - training and of.feeds}
    most = max([*(len(used[i]) for i in training), *joined.values()], default=0)
    training |= joined.keys()
    for i in set(used) - training:
        own = loader == i
        between = trains[own] & _backward_between(backward, end[own], np.append(start[own][1:], NEVER))
        # The first of two loaders read one after the other (a GAN's) is not followed by a backward at once, but is read as often.
        if between.mean() >= FEEDS_SHARE and own.sum() >= max(FEEDS_SHARE * most, fewest(i)):
            training.add(i)
    if not training:
        joined = {of.loader: len(of.length) for of in rows if of.loader in used and of.feeds_without_others}
    return frozenset(training | joined.keys()), frozenset(joined)


def _used(loader: NDArray[Any], backward: Ints, end_ns: Ints, start_ns: Ints) -> NDArray[np.float64]:
    """For each batch, which part of the batches of its row is used: backwards after the row, at most as many as it has batches."""
    following = np.append(start_ns[1:], NEVER)
    backwards = np.searchsorted(backward, following) - np.searchsorted(backward, end_ns)
    return _part_of_rows(_row_ends(loader, backward, end_ns, start_ns), backwards)


def _part_of_rows(last: Flags, backwards: Ints) -> NDArray[np.float64]:
    """For each batch of rows, of which these are the last ones, the backwards after its row for each batch of it, at most one."""
    ends = np.flatnonzero(last)
    length = np.diff(np.append(-1, ends))
    return np.repeat(np.minimum(backwards[ends], length) / length, length)


def _only_judged(loader: NDArray[Any], backward: Ints, end_ns: Ints, start_ns: Ints, spans: pl.DataFrame) -> Flags:
    """Which batches are of rows that the model is judged by, a validation's: it has done with each when the next is asked for. Those of an
    accumulation that are asked for together wait for what comes after their row. A row of one batch may be a teacher's step: it is
    judged by if many backwards follow.
    """
    last = _row_ends(loader, backward, end_ns, start_ns)
    row = np.append(0, np.cumsum(last)[:-1])[: len(last)]
    following = np.append(start_ns[1:], NEVER)[: len(last)]
    trained = np.append(backward, NEVER)[np.searchsorted(backward, end_ns)]
    judged = _judged(spans, end_ns, np.minimum(following, trained))
    backwards = np.bincount(row, np.where(last, np.searchsorted(backward, following) - np.searchsorted(backward, end_ns), 0))
    several = (np.bincount(row) > 1) | (backwards > MOST_FOR_A_BATCH)
    return np.asarray((several & (np.bincount(row, judged) == np.bincount(row)))[row])


def _judged(spans: pl.DataFrame, end_ns: Ints, limit_ns: Ints) -> Flags:
    """Which batches are followed, before a limit each, by a forward without gradients of a model that is trained as well; and by few of
    each model: whoever generates a text calls it for each word.
    """
    forwards = spans.filter(pl.col("kind") == "forward").with_columns(pl.col("gradients").fill_null(True), pl.col("module").fill_null(0))
    trained = forwards.filter("gradients")["module"].unique()
    calls = forwards.filter(~pl.col("gradients")).select("start_ns", "module")
    batch, inside = _batch_of(calls, end_ns, limit_ns)
    counted = calls.with_columns(batch=pl.Series(batch)).filter(pl.Series(inside)).group_by("batch", "module").len()
    most = counted.group_by("batch").agg(pl.col("len").max(), judged=pl.col("module").is_in(trained.implode()).any())
    found = np.zeros(len(end_ns), np.bool_)
    found[most.filter(pl.col("len") <= CALLS_TO_JUDGE, "judged")["batch"].to_numpy()] = True
    return found


def _batch_of(calls: pl.DataFrame, end_ns: Ints, limit_ns: Ints) -> tuple[Ints, Flags]:
    """For each call the batch received last before it, -1 before the first, and whether it came before that batch's limit."""
    start = calls["start_ns"].to_numpy()
    batch = np.searchsorted(end_ns, start, side="right") - 1
    return batch, (batch >= 0) & (start < np.append(limit_ns, 0)[batch])


def _row_ends(loader: NDArray[Any], backward: Ints, end_ns: Ints, start_ns: Ints) -> Flags:
    """Which batches are the last of those that are asked for in a row: then comes a backward, or a batch of another loader."""
    following = np.append(start_ns[1:], NEVER)[: len(start_ns)]
    return np.asarray(_backward_between(backward, end_ns, following) | (np.append(loader[1:], -2)[: len(loader)] != loader))


def _backward_between(backward: Ints, after_ns: Ints, before_ns: Ints) -> Flags:
    at = np.searchsorted(backward, after_ns)
    following = np.append(backward, NEVER)[at]
    return following < before_ns
