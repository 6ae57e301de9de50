"""Stragglers: few samples that take many times as long to make as the others, and what the training waits for them.

What it would be without them is replayed: the loader's workers make the same batches in the same order, with and without the excess of
the slow samples, and the training thread asks for them as it did. A slow sample may hold up the batch before it, too: where it keeps the
GIL (a regular expression over a book), its worker hands nothing over meanwhile (see transfer.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.producers import ACCOUNT, Fetches, WaitParts
from slowstep.analyses.batches.transfer import RECEIVE_NS
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.analyses.python.garbage import collected_ns
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.parts import PartKind
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

MOST_NAMED = 5
# As in frameworks/torch/inside/_loader/slow_samples.py, which tells of those that took longer by the clock alone.
SLOW_TIMES = 8
# Of slow samples that come by chance in one step of so many, a quarter at most come after so many steps, one more or one less, from this
# turn on; of shorter turns as many are asked for every time. Where a pass begins, or a shard ends, a turn may be another one.
FEWEST_TURNS, TURN_SPREAD, MOST_TURNS, LONG_TURN = 5, 0.2, 0.75, 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Stragglers:
    """The slow samples of the window; counts, what one usually takes and takes then, and which they were."""

    count: int
    of_samples: float | None  # samples made in the window
    steps: int  # steps whose batch holds one
    usual_ns: float
    each_ns: float
    named: tuple[tuple[int, int], ...]  # index and how often it was slow, those that were slow most often first
    removed_ns: Floats  # per step: what would not be waited without their excess
    share_of_making: float  # of the time in which batches are made
    keep_the_lock: bool  # for most of what they take longer, their workers hand nothing over that is ready


def find_stragglers(timeline: Timeline, trainer: Trainer, steps: Steps, fetches: Fetches, waits: WaitParts) -> Stragglers | None:
    """Find the slow samples and replay the loader without their excess; None where none was seen."""
    rows = _slow_samples(timeline, steps, fetches)
    if rows.is_empty() or not len(fetches.start_ns):
        return None
    excess, fetch_of, slow = _excess(rows, fetches)
    rows, fetch_of = rows.filter(pl.Series(slow)), fetch_of[slow]
    if rows.is_empty():
        return None
    used = np.flatnonzero(waits.fetch >= 0)
    if _of_groups(trainer, steps, rows, _steps_of(waits, used, steps, fetch_of)):
        return None
    inside = (fetches.start_ns >= steps.edges_ns[0]) & (fetches.end_ns <= steps.edges_ns[-1])
    duration = rows["made_ns"].to_numpy()
    known = Counter(rows["index"].drop_nulls().to_list())
    held = np.isin(waits.fetch[used], fetch_of)
    at, _ = steps.stretch_at(waits.start_ns[used][held])
    return Stragglers(
        count=rows.height,
        of_samples=float(np.nansum(fetches.samples[inside])) if np.isfinite(fetches.samples[inside]).any() else None,
        steps=len(np.unique(at)),
        usual_ns=float(np.median(rows["usual_ns"].to_numpy())),
        each_ns=float(np.median(duration)),
        named=tuple(known.most_common(MOST_NAMED)),
        removed_ns=_removed(timeline, trainer, steps, fetches, waits, excess),
        share_of_making=float(excess[inside].sum() / max(fetches.wall_ns[inside].sum(), 1.0)),
        keep_the_lock=_keep_the_lock(timeline, trainer, fetches, waits, excess),
    )


def _steps_of(waits: WaitParts, used: Ints, steps: Steps, fetch_of: Ints) -> Ints:
    """The step whose batch each slow sample is in; -1 where no wait is known to have been for it."""
    step = np.searchsorted(steps.edges_ns, waits.start_ns[used], side="right") - 1
    of_fetch = dict(zip(waits.fetch[used].tolist(), step.tolist(), strict=True))
    return np.array([of_fetch.get(fetch, -1) for fetch in fetch_of.tolist()], dtype=np.int64)


def _of_groups(trainer: Trainer, steps: Steps, rows: pl.DataFrame, step: Ints) -> bool:
    """Whether samples are slow in turn, each time others after as many steps, and more than once in a pass: as where many are made at once,
    a buffer, a shard or a compressed chunk, and handed out one by one. Then the one that is asked for first has the time of all of them.
    """
    passes = 1 + trainer.starts.filter(pl.col("start_ns").is_between(steps.edges_ns[0], steps.edges_ns[-1])).height
    index = rows["index"].drop_nulls()
    if rows.height < 2 * passes or 2 * index.n_unique() <= index.len() > 0:
        return False
    process = rows["process"].to_numpy()
    between = np.concatenate([np.diff(np.unique(step[(process == each) & (step >= 0)])) for each in np.unique(process).tolist()])
    if len(between) < FEWEST_TURNS:
        return False
    usual = float(np.median(between))
    spread = max(TURN_SPREAD * usual, 1.0 if usual >= LONG_TURN else 0.0)
    return usual > 1 and bool((np.abs(between - usual) <= spread).mean() >= MOST_TURNS)


def _slow_samples(timeline: Timeline, steps: Steps, fetches: Fetches) -> pl.DataFrame:
    """Those in the window of the processes that make batches, and what each took to be made, without the garbage collected meanwhile."""
    rows = timeline.table("slow_samples").filter(
        pl.col("process").is_in(np.unique(fetches.process).tolist()),
        pl.col("start_ns") >= int(steps.edges_ns[0]),
        pl.col("end_ns") <= int(steps.edges_ns[-1]),
    )
    return rows.with_columns(made_ns=(pl.col("end_ns") - pl.col("start_ns")) - pl.Series(collected_ns(timeline, rows)))


def _excess(rows: pl.DataFrame, fetches: Fetches) -> tuple[Floats, Ints, NDArray[np.bool_]]:
    """Per fetch what its slow samples took longer than usual; per row its fetch, and whether it is slow of itself.

    Waiting for a core and collecting garbage are no doing of the sample's.
    """
    excess, found, slow = np.zeros(len(fetches.start_ns)), np.zeros(rows.height, np.int64), np.zeros(rows.height, dtype=bool)
    delay = fetches.account[:, ACCOUNT.index(PartKind.PRODUCER_CORE_WAIT)]
    columns = ("process", "start_ns", "end_ns", "usual_ns", "made_ns")
    for row, (process, start, end, usual, made) in enumerate(rows.select(columns).iter_rows()):
        own = np.flatnonzero(fetches.process == process)
        at = own[max(int(np.searchsorted(fetches.start_ns[own], start, side="right")) - 1, 0)]
        # All of the batch's waiting for a core may have fallen into this sample.
        busy = made - float(delay[at])
        inside = fetches.start_ns[at] <= start and end <= fetches.end_ns[at]
        found[row], slow[row] = at, inside and busy >= SLOW_TIMES * usual
        excess[at] += (busy - usual) * slow[row]
    return excess, found, slow


def _removed(timeline: Timeline, trainer: Trainer, steps: Steps, fetches: Fetches, waits: WaitParts, excess: Floats) -> Floats:
    removed = np.zeros(steps.stretches)
    for own, workers, prefetch in _loaders(timeline, trainer):
        saved = _saved(waits, fetches, excess, own, workers, prefetch)
        step, inside = steps.stretch_at(waits.start_ns[own])
        np.add.at(removed, step[inside], saved[inside])
    return np.asarray(removed[~steps.excluded])


def _loaders(timeline: Timeline, trainer: Trainer) -> Iterator[tuple[Ints, int, int]]:
    """The waits of each iterator, with the number of its workers and how many batches each of them makes ahead."""
    rows = timeline.table("iterators").filter(pl.col("process") == trainer.process)
    loaders = {row["iterator"]: row for row in rows.iter_rows(named=True)}
    iterators = trainer.waits.filter(GAVE_BATCH)["iterator"].to_numpy()
    for number in np.unique(iterators).tolist():
        loader = loaders.get(number, {})
        yield np.flatnonzero(iterators == number), int(loader.get("num_workers") or 0), int(loader.get("prefetch_factor") or 2)


def _saved(waits: WaitParts, fetches: Fetches, excess: Floats, own: Ints, workers: int, prefetch: int) -> Floats:
    """What each wait of one iterator would be shorter."""
    fetch = waits.fetch[own]
    known = fetch >= 0
    slow = np.where(known, excess[fetch], 0.0)
    if not slow.any():
        return np.zeros(len(own))
    length = (waits.end_ns - waits.start_ns)[own].astype(np.float64)
    if workers == 0:
        # The training process records its short fetches only now and then: a wait may have been matched to the one before.
        return np.asarray(np.where(fetches.start_ns[fetch] >= waits.start_ns[own], np.minimum(slow, length), 0.0))
    made = np.where(known, fetches.wall_ns[fetch], 0.0)
    body = np.append(waits.start_ns[own][1:] - waits.end_ns[own][:-1], 0).astype(np.float64)
    held = _held_ns(waits, fetches, own, workers)
    without = replay(made - slow, body, workers, prefetch, np.maximum(held - slow, 0.0))
    # The replay knows no transport: what it says is held to the wait that really was.
    return np.asarray(np.clip(replay(made, body, workers, prefetch, held) - without, -length, length))


def _keep_the_lock(timeline: Timeline, trainer: Trainer, fetches: Fetches, waits: WaitParts, excess: Floats) -> bool:
    """Whether batches that were made before were waited for during most of what the slow samples took longer."""
    kept = longer = 0.0
    for own, workers, _ in _loaders(timeline, trainer):
        slow = np.where(waits.fetch[own] >= 0, excess[waits.fetch[own]], 0.0)
        longer += float(slow.sum())
        kept += float(np.minimum(_held_ns(waits, fetches, own, workers), slow).sum()) if workers else 0.0
    return longer > 0 and kept >= DOMINANT_SHARE * longer


def _held_ns(waits: WaitParts, fetches: Fetches, own: Ints, workers: int) -> Floats:
    """Per batch of one iterator, how long into its making its worker had not handed over its batch before, which was waited for."""
    held = np.zeros(len(own))
    before, batch = own[:-workers], own[workers:]
    made, making = waits.fetch[before], waits.fetch[batch]
    start, end = fetches.start_ns[making], waits.end_ns[before]
    waited = np.minimum(end, fetches.end_ns[making]) - np.maximum(waits.start_ns[before], start)
    same = (made >= 0) & (making >= 0) & (fetches.process[made] == fetches.process[making]) & (fetches.end_ns[made] <= start)
    held[workers:] = np.where(same & (waited > RECEIVE_NS), np.minimum(end, fetches.end_ns[making]) - start, 0)
    return held


def replay(made_ns: Floats, body_ns: Floats, workers: int, prefetch: int, held_ns: Floats | None = None) -> Floats:
    """How long each request waits, when the training thread works for `body_ns[k]` between receiving batch k and asking for the next.

    Batch k is made in `made_ns[k]` by worker k mod workers, which is told of it once batch k - workers * prefetch was received. The first
    `held_ns[k]` of that its worker hands over no batch that is asked for meanwhile.
    """
    ahead, asked = workers * prefetch, 0.0
    held = [0.0] * len(made_ns) if held_ns is None else held_ns.tolist()
    free = [0.0] * workers
    received: list[float] = []
    waited: list[float] = []

    def told(batch: int) -> float:
        return received[batch - ahead] if batch >= ahead else 0.0

    for k, (made, body) in enumerate(zip(made_ns.tolist(), body_ns.tolist(), strict=True)):
        free[k % workers] = max(told(k), free[k % workers]) + made
        now, following = max(asked, free[k % workers]), k + workers
        # With a prefetch_factor of one the worker is not told of the following batch before this one is received.
        if prefetch > 1 and following < len(held) and (began := max(told(following), free[k % workers])) <= now:
            now = max(now, began + held[following])
        waited.append(now - asked)
        received.append(now)
        asked = now + body
    return np.array(waited)
