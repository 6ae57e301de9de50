"""Threads of the script's own that make the batches which its loop waits for: what they run, and how much of their time it takes them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.input.taken_from_threads import POOLS, takes_from
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.python.concurrent_threads import ConcurrentThreads
from slowstep.analyses.python.functions import FEWEST_STACKS, Path, Stacks, inside, is_library, is_waiting, read_stacks, shown
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.part_words import part_in_words
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.timeline.timeline import Frame, Place, Timeline

# A function below the threads' own that holds so much of their stacks is named.
INNER_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class PrefetchThreads:
    """Threads that run the same `function`, and hand over what it makes. `is_taken` tells whether the training was
    seen to take its input from such.

    `inner` is the deepest function of the user's that holds at least INNER_SHARE of their stacks, with that share; None where none does.
    Times are per step, of all threads together: `wall_ns` that they do not wait in, `cpu_ns` on cores. `busy_share` is the first of them as
    a share of their time, known by `stacks`.
    """

    threads: int
    function: Part
    inner: tuple[str, float] | None
    wall_ns: float
    cpu_ns: float
    busy_share: float
    stacks: int
    is_taken: bool = False


def find_prefetch_threads(
    timeline: Timeline, trainer: Trainer, steps: Steps, ledger: Ledger, concurrent: ConcurrentThreads
) -> PrefetchThreads | None:
    """Those that use most of the processor, of such as the training was seen to take from if there are any; None where no thread that
    computes hands anything over.
    """
    found: dict[Place, list[tuple[int, float]]] = defaultdict(list)
    paths: dict[Place, list[tuple[float, Path]]] = defaultdict(list)
    for each in concurrent.threads:
        stacks = read_stacks(timeline, trainer.process, each.thread)
        mine = _within(stacks, steps)
        place = _handing_over(mine, trainer.facts.hands_over)
        if place is not None and len(mine) >= FEWEST_STACKS:
            found[place].append((each.thread, each.cores))
            paths[place] += mine
    if not found:
        return None
    from_queues, from_pools = takes_from(timeline, trainer, steps, ledger)
    seen = {each for each in found if (from_pools if _is_of_pool(each, paths[each], trainer) else from_queues)}
    place = max(found, key=lambda each: (each in seen, sum(cores for _, cores in found[each])))
    cores, taken = sum(cores for _, cores in found[place]), paths[place]
    whole, step_ns = sum(weight for weight, _ in taken), float(steps.duration_ns.mean())
    busy = sum(weight for weight, path in taken if not is_waiting(path)) / max(whole, 1.0)
    script = trainer.facts.script
    return PrefetchThreads(
        threads=len(found[place]),
        function=_part(place, script),
        inner=_inner(taken, place, script),
        wall_ns=busy * step_ns * len(found[place]),
        cpu_ns=cores * step_ns,
        busy_share=busy,
        stacks=len(taken),
        is_taken=place in seen,
    )


def _is_of_pool(place: Place, paths: list[tuple[float, Path]], trainer: Trainer) -> bool:
    return place not in trainer.facts.hands_over and any(POOLS.search(frame.file) for _, path in paths for frame in path)


def _within(stacks: Stacks, steps: Steps) -> list[tuple[float, Path]]:
    return stacks.paths(inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:]).tolist())


def _handing_over(paths: list[tuple[float, Path]], hands_over: frozenset[Place]) -> Place | None:
    """The function that hands over what a thread makes: of the script's one that says so, else the one that a pool has called."""
    held: dict[Place, float] = defaultdict(float)
    for weight, path in paths:
        if (place := _in_path(path, hands_over)) is not None:
            held[place] += weight
    return max(held, key=lambda place: held[place], default=None)


def _in_path(path: Path, hands_over: frozenset[Place]) -> Place | None:
    own = [_place(frame) for frame in path if not is_library(frame)]
    said = next((place for place in own if place in hands_over), None)
    if said is not None or not any(POOLS.search(frame.file) for frame in path):
        return said
    return own[0] if own else None


def _inner(paths: list[tuple[float, Path]], place: Place, script: str | None) -> tuple[str, float] | None:
    """Of what is not waiting: the deepest of the user's named functions below `place` that is in enough of it."""
    held: dict[Place, float] = defaultdict(float)
    depth: dict[Place, int] = {}
    busy = [(weight, path) for weight, path in paths if not is_waiting(path)]
    for weight, path in busy:
        own = [_place(frame) for frame in path if not is_library(frame) and not frame.function.endswith(">")]
        for at, each in enumerate(dict.fromkeys(own)):
            held[each] += weight
            depth[each] = max(depth.get(each, 0), at)
    whole = sum(weight for weight, _ in busy)
    most = [each for each, weight in held.items() if each != place and weight >= INNER_SHARE * whole]
    if not most:
        return None
    deepest = max(most, key=lambda each: (depth[each], held[each]))
    return part_in_words(_part(deepest, script)), float(np.clip(held[deepest] / whole, 0, 1))


def _place(frame: Frame) -> Place:
    return frame.file, frame.function, frame.first_line


def _part(place: Place, script: str | None) -> Part:
    file, function, line = place
    return Part("preprocess", PartKind.FUNCTION, function, CodePlace(shown(file, script), line))
