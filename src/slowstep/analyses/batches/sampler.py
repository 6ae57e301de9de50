"""Sampler time: what the loader's sampler does on the training thread, inside the request for the next batch.

A loader with workers asks its sampler for the next indices whenever a batch is received. Stacks tell it from receiving the batch. Without
workers it is known to the instant how long drawing takes (producers.py), and calls that were timed in a few gaps tell whose it is: a
sampler that holds the GIL lets no stack be taken.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.after_update.timed_gaps import read_gap_calls
from slowstep.analyses.batches.producers import COLUMN_OF, WaitParts
from slowstep.analyses.python.functions import FEWEST_STACKS, FRAMEWORK, Path, Stacks, inside, is_library, library_of, own_frames
from slowstep.analyses.python.gap_calls import GapCalls, Node
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named
from slowstep.parts import PartKind
from slowstep.shares import MOSTLY
from slowstep.timeline.timeline import Frame, Timeline

REQUEST = code(Code.REQUEST)
FETCHERS_FILE = code(Code.FETCH)
NEXT_INDEX, NEXT_BATCH, FETCH = named(Named.NEXT_INDICES), named(Named.NEXT_BATCH), named(Named.FETCH)


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplerTime:
    """`function` is the sampler's that holds most of it, the user's own where it has one; `into` what it calls of a library.

    Known from so many stacks in the sampler of so many in waits, or from so many timed gaps. `share` is of all waits' time; `held` is the
    sampler's share of what is called drawing, the rest the loader's own work around it.
    """

    function: Frame
    share: float
    held: float = 1.0
    stacks: int = 0
    of_stacks: int = 0
    gaps: int = 0
    into: str | None = None


def divide_sampler_time(timeline: Timeline, process: int, waits: WaitParts, stacks: Stacks) -> tuple[WaitParts, SamplerTime | None]:
    """The waits with what is drawing indices under its own name, and whose it is; None where too little was seen of that to tell."""
    drawn = waits.parts[:, COLUMN_OF[PartKind.SAMPLER]]
    drawn_ns = float(drawn.sum())
    share = drawn_ns / max(float((waits.end_ns - waits.start_ns).sum()), 1.0)
    by_stacks = find_sampler_time(waits, stacks)
    if waits.is_own.any() and (waits.is_own | ~waits.matched).all():
        # Where an epoch's indices are drawn at once, the few gaps whose calls were timed are of other batches.
        at_once = float(drawn[waits.first].sum()) >= MOSTLY * drawn_ns
        timed = None if at_once else find_timed_sampler(timeline, process, share)
        return waits, timed or (by_stacks and replace(by_stacks, held=min(by_stacks.share / max(share, 1e-9), 1.0)))
    return waits if by_stacks is None else with_sampler_time(waits, by_stacks), by_stacks


def find_sampler_time(waits: WaitParts, stacks: Stacks) -> SamplerTime | None:
    """The sampler's work; None where too few stacks stand in it to tell."""
    order = np.argsort(waits.start_ns, kind="stable")
    taken = inside(stacks, waits.start_ns[order], waits.end_ns[order])
    whole, held = 0.0, 0.0
    functions: Counter[Frame] = Counter()
    libraries: Counter[str] = Counter()
    for weight, path in stacks.paths(taken.tolist()):
        whole += weight
        below = _below_next_index(path)
        if below:
            held += weight
            functions[replace(own_frames(below)[-1], line=0)] += 1
            libraries.update(_into(below))
    if functions.total() < FEWEST_STACKS:
        return None
    into = next((name for name, stacks in libraries.most_common(1) if stacks >= MOSTLY * functions.total()), None)
    function = functions.most_common(1)[0][0]
    return SamplerTime(function=function, share=held / whole, stacks=functions.total(), of_stacks=len(taken), into=into)


def with_sampler_time(waits: WaitParts, sampler_time: SamplerTime) -> WaitParts:
    """The waits with the sampler's part of receiving batches, or of waiting for them, as drawing; where it is known already, as it is."""
    moved_from = [COLUMN_OF[kind] for kind in (PartKind.TRANSPORT, PartKind.INPUT_WAIT)]
    rest = waits.parts[:, moved_from]
    known = float(waits.parts[:, COLUMN_OF[PartKind.SAMPLER]].sum())
    drawn = max(sampler_time.share * float((waits.end_ns - waits.start_ns).sum()) - known, 0.0)
    moved = rest * min(drawn / max(float(rest.sum()), 1.0), 1.0)
    parts = waits.parts.copy()
    parts[:, COLUMN_OF[PartKind.SAMPLER]] += moved.sum(axis=1)
    parts[:, moved_from] -= moved
    return replace(waits, parts=parts)


def find_timed_sampler(timeline: Timeline, process: int, share: float) -> SamplerTime | None:
    """The sampler's work where the training thread makes its batches, and drawing takes a `share` of its waits.

    None where no function but the framework's own holds most of it.
    """
    read = read_gap_calls(timeline, process)
    if read is None:
        return None
    tree, gaps, _ = read
    begin, asked = _number(tree, REQUEST, NEXT_INDEX), _number(tree, REQUEST, NEXT_BATCH)
    if begin is None or asked is None:
        return None
    fetched = sum(_plain_ns(tree, number) for number, node in tree.nodes.items() if _is(node, FETCHERS_FILE, FETCH))
    found = _sampler(tree, begin)
    if found is None:
        return None
    number, held_ns = found
    node = tree.nodes[number]
    beside = max(_plain_ns(tree, asked) - fetched, held_ns, 1.0)
    function = Frame(file=node.file, function=node.name, first_line=node.line, line=0)
    return SamplerTime(function=function, share=share, held=held_ns / beside, gaps=gaps)


def _sampler(tree: GapCalls, begin: int) -> tuple[int, float] | None:
    """The innermost function that holds most of drawing and is not the framework's, the user's own where there is one, and its ns."""
    found: tuple[int, float] | None = None
    number, held, seen = begin, tree.nodes[begin].total, {begin}
    least = MOSTLY * held
    while True:
        # Of a built-in function that others call too (`next`), what takes longer than this call of it is none of this call's.
        inner = {callee: ns for callee, ns in tree.nodes[number].edges.items() if callee not in seen and least <= ns <= held}
        if not inner:
            return found
        number = max(inner, key=lambda callee: inner[callee])
        held, node = inner[number], tree.nodes[number]
        seen.add(number)
        is_named = not (node.built_in or FRAMEWORK.search(node.file))
        if is_named and (found is None or not node.is_library or tree.nodes[found[0]].is_library):
            found = number, held * tree.left(number)


def _number(tree: GapCalls, file: re.Pattern[str], name: re.Pattern[str]) -> int | None:
    return next((number for number, node in tree.nodes.items() if _is(node, file, name)), None)


def _is(node: Node, file: re.Pattern[str], name: re.Pattern[str]) -> bool:
    return bool(name.search(node.name) and file.search(node.file))


def _plain_ns(tree: GapCalls, number: int) -> float:
    return tree.nodes[number].total * tree.left(number)


def _into(path: Path) -> list[str]:
    """What the innermost function of the user's on a path calls of a library; nothing where there is none, or it calls nothing."""
    last = max((depth for depth, frame in enumerate(path) if not is_library(frame)), default=None)
    if last is None or last + 1 == len(path):
        return []
    called = path[last + 1]
    library = library_of(called)
    return [] if library is None else [f"{called.function} ({library})"]


def _below_next_index(path: Path) -> Path:
    """What the loader's call of its sampler had called; nothing where a stack does not stand there."""
    for depth, frame in enumerate(path):
        if NEXT_INDEX.search(frame.function) and REQUEST.search(frame.file):
            return path[depth + 1 :]
    return ()
