"""Whether the loop takes what other Python threads of its process hand over, where it makes or waits for its input."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.calls import CallTree, Key, read_calls
from slowstep.analyses.python.functions import Path, Stacks, inside, read_stacks, shown
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.timeline.timeline import Place, Timeline

# Where the standard library hands something from one thread to another, and the functions there by which one takes it.
QUEUES = re.compile(r"[/\\](queue|threading)\.py$")
POOLS = re.compile(r"[/\\](concurrent[/\\]futures[/\\]\w+|multiprocessing[/\\]pool)\.py$")
TAKING = re.compile(r"(^|\.)(get|get_nowait|wait|wait_for|result|result_iterator|as_completed|next|__next__|__enter__)$")


def takes_from(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger) -> tuple[bool, bool]:
    """Whether the training takes its input from queues and the like, and from pools of threads, as far as anything shows it.

    Of a loop that makes its input itself, what stands in `preprocess` shows it; else what runs while it waits for a batch.
    """
    places = set(_in_waits(timeline, trainer, steps) if trainer.is_fed else _before_forwards(timeline, trainer, steps, ledger))
    taken = [file for file, function, _ in places if TAKING.search(function)]
    return any(map(QUEUES.search, taken)), any(map(POOLS.search, taken))


def _in_waits(timeline: Timeline, trainer: Trainer, steps: Steps) -> Iterator[Place]:
    """Functions in stacks of the training thread that were taken while it waited for a batch of the training's."""
    waits = trainer.waits.sort("start_ns")
    if not waits.height:
        return
    stacks = _within(timeline, trainer, steps)
    for _, path in stacks.paths(inside(stacks, waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()).tolist()):
        yield from _places(path)


def _before_forwards(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger) -> Iterator[Place]:
    """Functions that parts of `preprocess` call, by timed calls; and where it waits for threads those in stacks, and of timed lines."""
    parts = [part for part in ledger.parts if part.stage == "preprocess"]
    tree = read_calls(timeline.table("calls"), timeline.table("call_edges"), "gap", [trainer.process])
    yield from _called(tree, parts, trainer.facts.script)
    if not any(part.kind is PartKind.THREAD_WAIT for part in parts):
        return
    for row in (trainer.facts.notes.get("gap_lines") or {}).get("lines", ()):
        yield from ((each["file"], each["function"], each["first_line"]) for each in row["callees"])
    stacks = _within(timeline, trainer, steps)
    for _, path in stacks.paths(range(len(stacks.stack))):
        yield from _places(path)


def _within(timeline: Timeline, trainer: Trainer, steps: Steps) -> Stacks:
    """The training thread's stacks in the steps of the window."""
    stacks = read_stacks(timeline, trainer.process, trainer.thread)
    return stacks.only(steps.step_at(stacks.time_ns)[1])


def _called(tree: CallTree, parts: Iterable[Part], script: str | None) -> Iterator[Key]:
    """What the functions of these parts call, at whatever depth."""
    named = {(part.name, part.place) for part in parts if part.name is not None}
    left = [key for key in tree.total_ns if (key[1], CodePlace(shown(key[0], script), key[2])) in named]
    seen = set(left)
    while left:
        new = [key for key in tree.callees.get(left.pop(), {}) if key not in seen]
        seen.update(new)
        left += new
    yield from seen


def _places(path: Path) -> Iterator[Place]:
    return ((frame.file, frame.function, frame.first_line) for frame in path)
