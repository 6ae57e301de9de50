"""What the training thread did when: its spans, each labelled with the part of the ledger that it is charged to.

A body span is added per step, from the receipt of its input (or its first forward) to the end of its update.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.producers import WaitParts
from slowstep.analyses.events.unions import edges_of
from slowstep.analyses.ledger.saves import saving_part
from slowstep.analyses.python.functions import shown
from slowstep.analyses.python.span_names import named_part
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_passes import GAVE_BATCH
from slowstep.parts import BACKWARD, BODY, COLLECTION, OPTIMIZER, UPDATES, VALIDATION, CodePlace, Part, PartKind
from slowstep.timeline.intervals import Ints

LOADER_START, LOADER_END = Part("preprocess", PartKind.LOADER_START), Part("preprocess", PartKind.LOADER_END)


@dataclass(frozen=True, slots=True)
class Spans:
    """Labelled spans of the training thread, to be charged. `part` is None of a wait, until that is divided among its parts."""

    start: Ints
    end: Ints
    part: list[Part | None]
    named: NDArray[np.bool_]  # those that a framework or the script named
    bodies: tuple[Ints, Ints]


def label_spans(trainer: Trainer, waits: WaitParts, forwards: Forwards) -> Spans:
    """All spans of the training thread; they nest, and the innermost is charged."""
    starts: list[Ints] = []
    ends: list[Ints] = []
    parts: list[Part | None] = []

    def add(start: Ints, end: Ints, part: Part | list[Part] | None) -> None:
        starts.append(np.asarray(start, dtype=np.int64))
        ends.append(np.asarray(end, dtype=np.int64))
        parts.extend(part if isinstance(part, list) else [part] * len(start))

    # The order matters where two begin together: the later one here is not preferred, the shorter one is.
    add(waits.start_ns, waits.end_ns, None)
    over = trainer.waits.filter(pl.col("exhausted") | pl.col("failed"))
    add(*edges_of(over), LOADER_END)
    add(*edges_of(trainer.starts), LOADER_START)
    spans = trainer.spans
    called, closed, ended = _optimizer_calls(trainer)
    add(called, closed, BODY)
    add(closed, ended, OPTIMIZER if trainer.has_optimizers else UPDATES)
    add(*edges_of(trainer.backwards), BACKWARD)
    add(*edges_of(trainer.ends), LOADER_END)
    saves = spans.filter(pl.col("kind") == "save")
    add(*edges_of(saves), [saving_part(name) for name in saves["name"].to_list()])
    named, first_named = spans.filter(pl.col("kind") == "span"), len(parts)
    add(*edges_of(named), _named_parts(named, trainer.facts.script))
    body = find_bodies(trainer, forwards)
    add(*body, BODY)
    add(*_validations(trainer, body[0]), VALIDATION)
    add(*edges_of(trainer.other_ends), VALIDATION)
    # The last ones: gaps are named as if they were not there.
    add(*edges_of(trainer.collections), COLLECTION)
    is_named = np.zeros(len(parts), dtype=np.bool_)
    is_named[first_named : first_named + named.height] = True
    return Spans(np.concatenate(starts), np.concatenate(ends), parts, is_named, body)


def _named_parts(named: pl.DataFrame, script: str | None) -> list[Part]:
    """The part of each named span, with the place of the user's function that it is."""
    parts: dict[tuple[object, ...], Part] = {}
    for row in named.select("stage", "name", "file", "line").unique().iter_rows():
        stage, name, file, line = row
        parts[row] = named_part(stage or "output", name, CodePlace(shown(file, script), line) if file else None)
    return [parts[row] for row in named.select("stage", "name", "file", "line").iter_rows()]


def _optimizer_calls(trainer: Trainer) -> tuple[Ints, Ints, Ints]:
    """Begin of each optimizer call, end of the closure that runs in it (the last backward inside; else the begin), and its end."""
    start, end = edges_of(trainer.all_updates)
    backward = np.sort(trainer.backwards["end_ns"].to_numpy())
    last = np.append(backward, -1)[np.searchsorted(backward, end, side="right") - 1]
    return start, np.maximum(start, last), end


def find_bodies(trainer: Trainer, forwards: Forwards) -> tuple[Ints, Ints]:
    """Per step: from the receipt of its input, or its first forward where it is not fed, to the end of its last update or backward."""
    if not trainer.is_fed:
        return _bodies_unfed(trainer, forwards)
    ends = trainer.update_end_ns
    before, following = _first_since(trainer.waits.filter(GAVE_BATCH)["end_ns"].to_numpy(), ends)
    has = following < ends
    # Loops that ask for one batch ahead: the last batch of an epoch is worked on after the loader has said that there are no more.
    over = trainer.waits.filter(pl.col("exhausted"))["end_ns"].to_numpy()
    at = np.searchsorted(over, ends) - 1
    asked = np.append(over, -1)[at]
    ahead = ~has & (asked >= before)
    start, end = np.where(ahead, asked, following)[has | ahead], _last_work(trainer)[has | ahead]
    return _interrupted(trainer, start, end)


def _bodies_unfed(trainer: Trainer, forwards: Forwards) -> tuple[Ints, Ints]:
    """From the first forward on; from the first backward where no forward was seen, as of a model that is no module."""
    ends, begins = trainer.body_end_ns, forwards.bodies_ns
    if not trainer.by_hand:
        begins = np.sort(np.concatenate((begins, trainer.backwards["start_ns"].to_numpy())))
    _, following = _first_since(begins, ends)
    has = following < ends
    return following[has], ends[has]


def _first_since(instants: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """For each end the one before it, and the first of some instants from that on; the largest number where there is none."""
    before = np.append(-1, ends[:-1])
    return before, np.append(instants, np.iinfo(np.int64).max)[np.searchsorted(instants, before)]


def _work_ends(trainer: Trainer) -> Ints:
    """Ends of all backwards and updates, in order."""
    return np.sort(np.concatenate((trainer.all_updates["end_ns"].to_numpy(), trainer.backwards["end_ns"].to_numpy())))


def _interrupted(trainer: Trainer, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Bodies without what runs between the backward of a micro-batch and the request for the next: that is a gap, as after an update."""
    requests, receipts = edges_of(trainer.waits)
    work = _work_ends(trainer)
    if not len(start) or not len(work):
        return start, end
    done = np.append(work, -1)[np.searchsorted(work, requests, side="right") - 1]
    received = np.append(-1, receipts[:-1])
    body = np.maximum(np.searchsorted(start, done, side="right") - 1, 0)
    inside = (done > received) & (done > start[body]) & (requests < end[body])
    return np.sort(np.append(start, requests[inside])), np.sort(np.append(end, done[inside]))


def _last_work(trainer: Trainer) -> Ints:
    """For each update, the end of what belongs to its step: second optimizers' backwards and updates before the next request for input."""
    ends = trainer.update_end_ns
    requests = trainer.waits["start_ns"].to_numpy()
    work = _work_ends(trainer)
    following = np.append(requests, np.iinfo(np.int64).max)[np.searchsorted(requests, ends)]
    limit = np.minimum(following, np.append(trainer.update_start_ns[1:], np.iinfo(np.int64).max))
    last: Ints = work[np.maximum(np.searchsorted(work, limit, side="right") - 1, 0)]
    return np.maximum(ends, last)


def _validations(trainer: Trainer, bodies_ns: Ints) -> tuple[Ints, Ints]:
    """Stretches between two updates in which another loader than the training's is read: from its first request to its last, or to the end
    of its workers, which one that is left early has after its last batch was worked on.
    """
    starts, ends = trainer.asked_of_others_ns
    if not len(starts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    group = np.searchsorted(trainer.update_end_ns, starts, side="right")
    groups = np.unique(group)
    first = np.array([starts[group == g].min() for g in groups.tolist()])
    last = np.array([ends[group == g].max() for g in groups.tolist()])
    return first, _to_its_end(trainer, last, bodies_ns)


def _to_its_end(trainer: Trainer, last: Ints, bodies_ns: Ints) -> Ints:
    """The ends of validations, put off to the last end of their workers that comes before the training goes on."""
    goes_on = np.sort(np.concatenate((bodies_ns, trainer.waits["start_ns"].to_numpy(), trainer.starts["start_ns"].to_numpy())))
    limit = np.append(goes_on, np.iinfo(np.int64).max)[np.searchsorted(goes_on, last)]
    ended = np.sort(trainer.other_ends["end_ns"].to_numpy())
    before = np.append(ended, -1)[np.searchsorted(ended, limit) - 1]
    return np.asarray(np.maximum(last, before))
