"""What each stage of an input pipeline takes that a framework runs in threads of its own, and which of them holds up the training."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.input.pipeline_functions import PipelineFunction, WrittenStage, calls_functions, match_stages, written_stages
from slowstep.analyses.input.pipeline_nodes import (
    NodePath,
    PipelineNode,
    PipelineWindow,
    join_windows,
    makes_datasets,
    mixed_inputs,
    read_window,
)
from slowstep.analyses.input.pipeline_stage import PipelineStage, PipelineThread
from slowstep.analyses.input.slow_stage import asked_ns, find_slowest, ready_share
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# What is known of fewer batches may be the filling of buffers.
FEWEST_BATCHES: Final = 8
# Fewer looks do not tell how full a buffer usually is.
FEWEST_LOOKS: Final = 3
# So much of what a stage took of several inputs must have been counted in these for their shares in it to be known.
NEARLY_ALL: Final = 0.9
# As notes have it: a thread of the framework's divides batches among replicas, whatever else makes them.
_DIVIDED: Final = "several-replicas"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """The stages, from the last one to the sources, in a window of so many batches, which came `interval_ns` apart.

    `slowest` is the number of the one that holds up the training, where one is at work all the time; `bound_ns` is the time between
    batches that its thread allows. `ready` is how full the buffers are where batches lie ready in them, `asked_ns` what the training's own
    request takes at most. `unread` is why nothing was counted, or no more from some time on.
    """

    stages: tuple[PipelineStage, ...]
    written: tuple[WrittenStage, ...]
    batches: int
    interval_ns: float | None = None
    slowest: int | None = None
    bound_ns: float | None = None
    ready: float | None = None
    asked_ns: float = 0.0
    unread: str | None = None

    @property
    def is_made_concurrently(self) -> bool:
        """Whether batches are surely made beside the training: their stages were seen, or they are divided among replicas."""
        return bool(self.stages) or self.unread == _DIVIDED

    @property
    def reads(self) -> str | None:
        """What it only hands on, where it is no pipeline of the script's: arrays, or the class of a loader."""
        return next((stage.reads for stage in self.written if stage.reads is not None), None)

    @property
    def is_generated(self) -> bool:
        """Whether its elements are made by a generator in Python."""
        return any(stage.is_generator for stage in self.written)

    @property
    def maker(self) -> PipelineFunction | None:
        """The function in Python that makes what it only hands on, where that is one: workers of the loader may call it."""
        found = {function for stage in self.written if stage.is_generator for function in stage.functions}
        return found.pop() if self.reads is not None and len(found) == 1 else None

    @property
    def slow_stage(self) -> PipelineStage | None:
        """The stage that holds up the training, where it is known."""
        return None if self.slowest is None else self.stages[self.slowest]


def find_pipeline(timeline: Timeline, trainer: Trainer, steps: Steps) -> Pipeline | None:
    """The pipeline that feeds the training, of several that which gave most batches in its steps; None where none was looked at."""
    mine, fed = pl.col("process") == trainer.process, trainer.waits["iterator"].unique().to_list()
    known = timeline.table("pipelines").filter(mine, pl.col("iterator").is_null() | pl.col("iterator").is_in(fed))
    tables = [timeline.table(name).filter(mine) for name in ("pipeline_stages", "pipeline_functions", "pipeline_nodes")]
    groups: dict[tuple[WrittenStage, ...], list[tuple[PipelineWindow, str | None]]] = defaultdict(list)
    for number, unread in known.select("pipeline", "unread").iter_rows():
        stages, functions, nodes = (table.filter(pl.col("pipeline") == number) for table in tables)
        written = written_stages(stages, functions, trainer.facts.script)
        groups[written].append((read_window(nodes, *steps.bounds_ns), unread))
    if not groups:
        return None
    written, read = max(groups.items(), key=lambda group: sum(window.inside for window, _ in group[1]))
    why = next((unread for _, unread in read if unread is not None), None)
    cores = None if trainer.facts.cores is None else max(math.ceil(trainer.facts.cores), 1)
    return measure_pipeline(join_windows(window for window, _ in read), written, cores=cores, unread=why)


def measure_pipeline(
    window: PipelineWindow, written: tuple[WrittenStage, ...], *, cores: int | None, unread: str | None = None
) -> Pipeline:
    """What the stages take that were seen in a window, on so many cores; where these are unknown, as if there were one for each call."""
    if window.batches < FEWEST_BATCHES:
        return Pipeline(stages=(), written=written, batches=window.batches, unread=unread)
    nodes = [window.nodes[path] for path in sorted(window.nodes)]
    stages = _stages(nodes, _of_script(nodes, written), window.batches, cores)
    interval_ns = window.ns / window.batches
    slowest, bound_ns = find_slowest(stages, interval_ns, is_capped=cores is not None)
    return Pipeline(
        stages=stages,
        written=written,
        batches=window.batches,
        interval_ns=interval_ns,
        slowest=slowest,
        bound_ns=bound_ns,
        ready=ready_share(stages, interval_ns),
        asked_ns=asked_ns(stages),
        unread=unread,
    )


def _of_script(nodes: list[PipelineNode], written: tuple[WrittenStage, ...]) -> dict[NodePath, tuple[WrittenStage, ...]]:
    """Which stages of the script each does. Those of data sets that a stage makes are what that stage was given.

    In Python it may have functions of any of them: what calls none runs none of these.
    """
    own = [node for node in nodes if not node.is_inner and len(node.path) > 1]
    found = dict(zip((node.path for node in own), match_stages([node.name for node in own], written), strict=True))
    for node in nodes:
        of_maker = found.get(node.path[:-1], ())
        found.setdefault(node.path, of_maker if calls_functions(node.name) else tuple(replace(each, in_python=()) for each in of_maker))
    return found


def _stages(
    nodes: list[PipelineNode], of_script: dict[NodePath, tuple[WrittenStage, ...]], batches: int, cores: int | None
) -> tuple[PipelineStage, ...]:
    numbers = {node.path: number for number, node in enumerate(nodes)}
    stages: list[PipelineStage] = []
    for node in nodes:
        into = numbers.get(node.path[:-1])
        above = None if into is None else stages[into]
        beside = [] if into is None else [each for each in nodes if each.path[:-1] == node.path[:-1]]
        elements, is_shared = _elements(node, None if into is None else nodes[into], above, beside, batches)
        busy_ns, low_ns, high_ns = _busy_ns(node, elements, batches, is_shared=is_shared)
        stages.append(
            PipelineStage(
                name=node.name,
                depth=len(node.path) - 1,
                into=into,
                elements=elements,
                bytes=node.bytes / max(node.elements, 1) * elements,
                busy_ns=busy_ns,
                low_ns=low_ns,
                high_ns=high_ns,
                thread=_thread(node, into, stages, cores),
                parallelism=node.last["parallelism"],
                is_tuned=bool(node.last["parallelism_tuned"]),
                buffer_size=node.last["buffer_size"],
                full=float(np.mean(node.full)) if len(node.full) >= FEWEST_LOOKS else None,
                is_shared=is_shared,
                written=of_script[node.path],
            )
        )
    return tuple(stages)


def _elements(
    node: PipelineNode, parent: PipelineNode | None, above: PipelineStage | None, beside: list[PipelineNode], batches: int
) -> tuple[float, bool]:
    """What a stage gives per batch, and whether that is only the most that it may be, because others `beside` it gave the rest.

    Of one that was made anew not all is known: what the one that reads it takes.
    """
    if parent is None or above is None or not node.is_replaced:
        return node.elements / batches, False
    mixed = mixed_inputs(parent.name, beside)
    if node in mixed:
        share = _share(node, parent, mixed)
        return above.elements * (share or 1.0), above.is_shared or share is None
    if makes_datasets(parent.name) and node.path[-1][0] == 0:
        # It gives an element for each data set, of which many come.
        return above.elements * node.elements / max(parent.elements, node.elements, 1), above.is_shared
    is_first = node.path[-1][0] == 0
    return above.elements * ((parent.last["ratio"] or 1.0) if is_first else 1.0), above.is_shared


def _share(node: PipelineNode, parent: PipelineNode, mixed: list[PipelineNode]) -> float | None:
    """Which share of its elements a stage takes of one of its inputs; None where too little was counted in these."""
    counted = sum(each.elements for each in mixed)
    return node.elements / counted if node.elements and counted >= NEARLY_ALL * parent.elements else None


def _busy_ns(node: PipelineNode, elements: float, batches: int, *, is_shared: bool) -> tuple[float, float, float]:
    """The time in a stage per batch, and between which times it lies: of one that was made anew by the elements that are known."""
    counted = node.busy_ns / batches
    if not node.is_replaced or not node.elements:
        return counted, counted, counted
    likely = max(node.busy_ns / node.elements * elements, counted)
    return counted if is_shared else likely, counted, likely * (1 + 2 / math.sqrt(node.elements))


def _thread(node: PipelineNode, into: int | None, stages: list[PipelineStage], cores: int | None) -> PipelineThread:
    """Who runs the stage that follows those that are known."""
    if node.last["parallelism"]:
        return PipelineThread(does="calls", of=len(stages), servers=_servers(node, cores))
    if into is None:
        return PipelineThread(does="asks", of=len(stages))
    above = stages[into]
    is_made = makes_datasets(above.name) and node.path[-1][0] > 0
    if (above.parallelism and not is_made) or above.buffer_size is not None:
        return PipelineThread(does="feeds", of=into)
    return above.thread if above.thread.does != "calls" else _of_maker(node, stages[above.thread.of].thread, cores)


def _of_maker(node: PipelineNode, thread: PipelineThread, cores: int | None) -> PipelineThread:
    """Who runs it of what is read in calls at once: functions that are called there run in threads of the framework too."""
    if cores is None or not calls_functions(node.name):
        return thread
    return replace(thread, servers=min(thread.servers, cores))


def _servers(node: PipelineNode, cores: int | None) -> int:
    """How many calls are made at once. More than cores wait for one, or for the threads of the framework, of which there are as many.

    What reads data sets has threads of its own for each call, which wait for a disk or a server.
    """
    parallelism = int(node.last["parallelism"])
    return parallelism if makes_datasets(node.name) or cores is None else min(parallelism, cores)
