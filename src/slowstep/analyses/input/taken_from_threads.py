"""Whether the loop takes what other Python threads of its process hand over, where it makes or waits for its input."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.calls import CallTree, Key, read_calls
from slowstep.analyses.python.functions import FEWEST_STACKS, Path, Stacks, inside, read_stacks, shown
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.timeline.timeline import Place, Timeline

# Where the standard library hands something from one thread to another, and the functions there by which one takes it: those that others
# call, for whoever puts into a full queue, or starts a thread, waits inside as well.
QUEUES = re.compile(r"[/\\](queue|threading)\.py$")
POOLS = re.compile(r"[/\\](concurrent[/\\]futures[/\\]\w+|multiprocessing[/\\]pool)\.py$")
TAKING = re.compile(r"(^|\.)(get|get_nowait|wait|wait_for|result|result_iterator|as_completed|next|__next__|__enter__)$")


def takes_from(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger) -> tuple[bool, bool]:
    """Whether the training takes its input from queues and the like, and from pools of threads, as far as anything shows it.

    Of a loop that makes its input itself, what stands in `preprocess` shows it; else what runs while it waits for a batch.
    """
    files = list(_in_waits(timeline, trainer, steps) if trainer.is_fed else _before_forwards(timeline, trainer, steps, ledger))
    return any(map(QUEUES.search, files)), any(map(POOLS.search, files))


def _in_waits(timeline: Timeline, trainer: Trainer, steps: Steps) -> Iterator[str]:
    """Files by which it takes in stacks of the training thread while it waited for a batch of the training's."""
    waits = trainer.waits.sort("start_ns")
    if waits.height:
        stacks = _within(timeline, trainer, steps)
        yield from _taken_in(stacks, inside(stacks, waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()).tolist())


def _before_forwards(timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger) -> Iterator[str]:
    """Files by which it takes in what parts of `preprocess` call, by timed calls; and where it waits for threads in stacks, and by timed
    lines.
    """
    parts = [part for part in ledger.parts if part.stage == "preprocess"]
    tree = read_calls(timeline.table("calls"), timeline.table("call_edges"), "gap", [trainer.process])
    yield from _taken(_called(tree, parts, trainer.facts.script))
    if not any(part.kind is PartKind.THREAD_WAIT for part in parts):
        return
    for row in (trainer.facts.notes.get("gap_lines") or {}).get("lines", ()):
        yield from _taken((each["file"], each["function"], each["first_line"]) for each in row["callees"])
    stacks = _within(timeline, trainer, steps)
    yield from _taken_in(stacks, range(len(stacks.stack)))


def _within(timeline: Timeline, trainer: Trainer, steps: Steps) -> Stacks:
    """The training thread's stacks in the steps of the window."""
    stacks = read_stacks(timeline, trainer.process, trainer.thread)
    return stacks.only(steps.step_at(stacks.time_ns)[1])


def _called(tree: CallTree, parts: Iterable[Part], script: str | None) -> Iterator[Key]:
    """What the functions of these parts call, at whatever depth, but for what the standard library does to hand something over."""
    named = {(part.name, part.place) for part in parts if part.name is not None}
    left = [key for key in tree.total_ns if (key[1], CodePlace(shown(key[0], script), key[2])) in named]
    seen = set(left)
    while left:
        new = [key for key in tree.callees.get(left.pop(), {}) if key not in seen]
        seen.update(new)
        left += [key for key in new if not _hands_over(key[0])]
    yield from seen


def _taken_in(stacks: Stacks, index: Iterable[int]) -> Iterator[str]:
    """Files by which something is taken in at least FEWEST_STACKS of them."""
    outermost = (_outermost(path) for _, path in stacks.paths(index))
    often = Counter(_taken(place for place in outermost if place is not None))
    yield from (file for file, count in often.items() if count >= FEWEST_STACKS)


def _taken(places: Iterable[Place]) -> Iterator[str]:
    """The files of the standard library's of functions that take something."""
    return (file for file, function, _ in places if _hands_over(file) and TAKING.search(function))


def _outermost(path: Path) -> Place | None:
    """What of a stack hands something over; None where nothing does."""
    return next(((frame.file, frame.function, frame.first_line) for frame in path if _hands_over(frame.file)), None)


def _hands_over(file: str) -> bool:
    return bool(QUEUES.search(file) or POOLS.search(file))
