"""How long a step takes in each scenario: as many variants are replayed at once as a steady amount of memory holds.

One pass over a graph takes about as long for sixty variants as for one, so that a step of usual size takes one pass. Of a window of a
million calls that is one step (nothing marks its steps) sixty variants would be many times as large as the trace: they are replayed a few
at a time and, where the unchanged step already says that none will be judged, not at all.

Once something is changed, delays may bind that did not before. So each scenario is also replayed without the delays that no dependency
explains: where its step is then more than a tenth shorter, the answer is about them, and is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slowstep.analyses.replay.clock import Variant, explaining, step_lengths, unchanged
from slowstep.analyses.replay.graph import MAYBE_RETURN
from slowstep.analyses.replay.scene import Changed, Scene
from slowstep.analyses.replay.unjudged import DELAYS_THEN, HOST_TIME_THEN
from slowstep.analyses.replay.variants import change
from slowstep.reasons import Reason, Wording

# Nodes times variants; each takes some 60 bytes in a variant's own arrays and in those of the pass.
VALUES_AT_ONCE: Final = 1 << 20

# Of a replayed step, as of an observed one.
RESIDUAL_AT_MOST: Final = 0.10
Asked = tuple[int, str]  # the position of a scene, and a scenario
Waiting = dict[Asked, Reason | float | None]  # why not, None where nothing changes, else how many times as many samples a step has


@dataclass(frozen=True, slots=True)
class ScenarioLength:
    """Step time as expected, in the better and in the worse case, ns; `reason` is why a scenario cannot be known."""

    expected_ns: float
    best_ns: float
    worst_ns: float
    reason: Reason | None = None


def scenario_lengths(
    scenes: Sequence[Scene], scenarios: Iterable[str], judge: Callable[[float], Reason | None]
) -> tuple[list[float], Reason | None, list[dict[str, ScenarioLength]]]:
    """Length of the unchanged step, why the step is not judged (None: it is), and the answer to each scenario; without those where it
    is not. `judge` says it of the unchanged step's length.

    `scenes` are one step in several forms, whose graphs differ in delays only: lengths and answers are in their order, and the first
    one's length is judged.
    """
    names = [(number, name) for name in scenarios for number in range(len(scenes))]
    asked, explained = iter(names), [explaining(scene.graph) for scene in scenes]
    graph = scenes[0].graph
    room = max(VALUES_AT_ONCE // graph.nodes, len(scenes))
    variants, waiting = _filled(scenes, asked, explained, [unchanged(scene.graph) for scene in scenes], room)
    lengths = step_lengths(graph, variants).tolist()
    wholes, lengths = lengths[: len(scenes)], lengths[len(scenes) :]
    reason = judge(wholes[0])
    if reason is not None:
        return wholes, reason, []
    why = HOST_TIME_THEN if bool(np.any(graph.kind == MAYBE_RETURN)) else DELAYS_THEN
    answers = _answers(waiting, lengths, wholes, why)
    while True:
        variants, waiting = _filled(scenes, asked, explained, [], room)
        if not waiting:
            return wholes, None, [{name: answers[number, name] for _, name in names[:: len(scenes)]} for number in range(len(scenes))]
        answers |= _answers(waiting, step_lengths(graph, variants).tolist() if variants else [], wholes, why)


def _filled(
    scenes: Sequence[Scene], asked: Iterator[Asked], explained: Sequence[Callable[[Variant], Variant]], variants: list[Variant], room: int
) -> tuple[list[Variant], Waiting]:
    """`variants` and those of the next questions, as long as there is room for one more; at least one's where there are none."""
    waiting: Waiting = {}
    while not variants or len(variants) + 4 <= room:
        question = next(asked, None)
        if question is None:
            break
        number, name = question
        answer = change(name, scenes[number])
        if isinstance(answer, Changed):
            variants += [answer.expected, answer.optimistic, answer.pessimistic, explained[number](answer.expected)]
        waiting[question] = answer.samples if isinstance(answer, Changed) else answer
    return variants, waiting


def _answers(waiting: Waiting, lengths: list[float], wholes: list[float], why: Wording) -> dict[Asked, ScenarioLength]:
    following = iter(lengths)
    found = {}
    for asked, answer in waiting.items():
        if isinstance(answer, float):
            expected, optimistic, pessimistic, explained = (next(following) / answer for _ in range(4))
            unknown = (expected - explained) / max(expected, 1.0)
            found[asked] = ScenarioLength(expected, min(optimistic, expected), max(pessimistic, expected), _reason(unknown, why))
        else:
            whole = wholes[asked[0]]
            found[asked] = ScenarioLength(whole, whole, whole, answer)
    return found


def _reason(unknown: float, why: Wording) -> Reason | None:
    return why(share=unknown) if unknown > RESIDUAL_AT_MOST else None
