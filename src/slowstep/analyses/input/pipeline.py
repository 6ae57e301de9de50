"""What each stage of an input pipeline takes that a framework runs in threads of its own, and which of them holds up the training."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.input.pipeline_functions import PipelineFunction, WrittenStage, match_stages, written_stages
from slowstep.analyses.input.pipeline_nodes import (
    NodePath,
    PipelineNode,
    PipelineWindow,
    join_windows,
    makes_datasets,
    mixed_inputs,
    read_window,
)
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# What is known of fewer batches may be the filling of buffers.
FEWEST_BATCHES: Final = 8
# Fewer looks do not tell how full a buffer usually is.
FEWEST_LOOKS: Final = 3
# A thread that holds up the training is at work all the time. Of stages that were planted 0.93 to 1.0 of the time between two batches was
# counted, of one behind a `filter` 0.68 (TensorFlow 2.21, two cores): the rest is handing over, which is in no stage.
AT_WORK: Final = 0.6
# A thread cannot be at work for longer than batches are apart; what was read at the ends of a window can be off by a few elements of it.
AT_MOST: Final = 1.25
# So much of what a stage took of several inputs must have been counted in these for their shares in it to be known.
NEARLY_ALL: Final = 0.9
# A buffer that is filled further keeps nobody waiting (tensorpack's rule: near its size is good, near zero starves).
FILLED: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineThread:
    """Who runs a stage: the training's own request for a batch ("asks"), the thread that reads ahead for another stage ("feeds"), or the
    calls that a stage makes at once, so many at most ("calls"); `of` is the number of that stage.
    """

    does: str
    of: int
    servers: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineStage:
    """One stage as it runs.

    What is counted is per batch that the training gets: the elements and bytes that it gives, and the time in it, in all its calls together
    and without its inputs: `busy_ns`, of which `low_ns` were seen at least, and `high_ns` may have been at most. `into` is the number of
    the one that reads it, `written` are the stages of the script that it does. `full` is the share of its buffer, or of the calls that it
    makes at once, that lies ready, on average. None is unknown, or that it has none. Where it is not known how much of what was not
    counted is its own (`is_shared`), `elements` are what it gives at most, and `busy_ns` is what was counted.
    """

    name: str
    depth: int
    into: int | None
    elements: float
    bytes: float
    busy_ns: float
    low_ns: float
    high_ns: float
    thread: PipelineThread
    parallelism: int | None
    buffer_size: int | None
    full: float | None
    is_shared: bool
    written: tuple[WrittenStage, ...]

    @property
    def is_in_python(self) -> bool:
        """Whether Python runs a function for each of its elements."""
        return any(stage.in_python for stage in self.written)

    @property
    def functions(self) -> tuple[PipelineFunction, ...]:
        """All that may take its time, in the order of the stages that the script wrote."""
        return tuple(dict.fromkeys(function for stage in self.written for function in stage.functions))

    @property
    def function(self) -> PipelineFunction | None:
        """The one to be looked at; of several in one stage of the script's what that was given, and of several such stages none."""
        if len(self.functions) == 1:
            return self.functions[0]
        given = [stage.given for stage in self.written if stage.functions]
        return given[0] if len(given) == 1 else None

    @property
    def works(self) -> bool:
        """Whether it does anything but hand on what others made."""
        return self.into is not None and self.buffer_size is None

    @property
    def bound_ns(self) -> float:
        """The time from batch to batch that it alone allows."""
        return self.busy_ns / self.thread.servers

    @property
    def most_ns(self) -> float:
        """The time in it at most, as far as that is not a matter of chance."""
        return self.high_ns if self.is_shared else self.busy_ns


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """The stages, from the last one to the sources, in a window of so many batches, which came `interval_ns` apart.

    `slowest` is the number of the one that holds up the training, where one is at work all the time; `bound_ns` is the time between
    batches that its thread allows. `unread` is why nothing was counted, or no more from some time on.
    """

    stages: tuple[PipelineStage, ...]
    written: tuple[WrittenStage, ...]
    batches: int
    interval_ns: float | None = None
    slowest: int | None = None
    bound_ns: float | None = None
    unread: str | None = None

    @property
    def reads(self) -> str | None:
        """What it only hands on, where it is no pipeline of the script's: arrays, or the class of a loader."""
        return next((stage.reads for stage in self.written if stage.reads is not None), None)

    @property
    def is_generated(self) -> bool:
        """Whether its elements are made by a generator in Python."""
        return any(stage.is_generator for stage in self.written)

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
        unread=unread,
    )


def _of_script(nodes: list[PipelineNode], written: tuple[WrittenStage, ...]) -> dict[NodePath, tuple[WrittenStage, ...]]:
    """Which stages of the script each does. Those of data sets that a stage makes are what that stage was given."""
    own = [node for node in nodes if not node.is_inner and len(node.path) > 1]
    found = dict(zip((node.path for node in own), match_stages([node.name for node in own], written), strict=True))
    for node in nodes:
        found.setdefault(node.path, found.get(node.path[:-1], ()))
    return found


def _stages(
    nodes: list[PipelineNode], of_script: dict[NodePath, tuple[WrittenStage, ...]], batches: int, cores: int | None
) -> tuple[PipelineStage, ...]:
    numbers = {node.path: number for number, node in enumerate(nodes)}
    stages: list[PipelineStage] = []
    for number, node in enumerate(nodes):
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
                thread=_thread(node, number, into, above, cores),
                parallelism=node.last["parallelism"],
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


def _thread(node: PipelineNode, number: int, into: int | None, above: PipelineStage | None, cores: int | None) -> PipelineThread:
    """Who runs it."""
    if node.last["parallelism"]:
        return PipelineThread(does="calls", of=number, servers=_servers(node, cores))
    if above is None or into is None:
        return PipelineThread(does="asks", of=number)
    is_made = makes_datasets(above.name) and node.path[-1][0] > 0
    if (above.parallelism and not is_made) or above.buffer_size is not None:
        return PipelineThread(does="feeds", of=into)
    return above.thread


def _servers(node: PipelineNode, cores: int | None) -> int:
    """How many calls are made at once. More than cores wait for one, or for the threads of the framework, of which there are as many.

    What reads data sets has threads of its own for each call, which wait for a disk or a server.
    """
    parallelism = int(node.last["parallelism"])
    return parallelism if makes_datasets(node.name) or cores is None else min(parallelism, cores)


def find_slowest(stages: tuple[PipelineStage, ...], interval_ns: float, *, is_capped: bool = True) -> tuple[int | None, float | None]:
    """The stage that takes most in the thread that is at work all the time, and the time between batches which that allows.

    Threads of which the results lie ready are left out. None where no other is at work all the time, where another one may take longer, or
    where it is not known of all of them how many calls they make at once: whether there is a core for each (`is_capped`), or because by
    what is known batches could not have come as fast as they did. What runs in the training's own request holds it up however long it
    takes.
    """
    bounds: dict[PipelineThread, float] = defaultdict(float)
    for stage in stages:
        bounds[stage.thread] += stage.bound_ns
    if not bounds or not _are_servers_known(stages, bounds, interval_ns, is_capped=is_capped):
        return None, None
    for thread in sorted(bounds, key=lambda each: -bounds[each]):
        works = [number for number, stage in enumerate(stages) if stage.thread == thread and stage.works]
        slowest = max(works, key=lambda number: stages[number].busy_ns, default=None)
        if slowest is not None and _lies_ready(stages, slowest):
            continue
        is_at_work = thread.does == "asks" or bounds[thread] >= AT_WORK * interval_ns
        found = slowest is not None and is_at_work and _takes_longest(stages, slowest, bounds[thread])
        return (slowest, bounds[thread]) if found else (None, None)
    return None, None


def _are_servers_known(
    stages: tuple[PipelineStage, ...], bounds: dict[PipelineThread, float], interval_ns: float, *, is_capped: bool
) -> bool:
    are_capped = is_capped or all(thread.servers == 1 or makes_datasets(stages[thread.of].name) for thread in bounds)
    return are_capped and max(bounds.values()) <= AT_MOST * interval_ns


def _takes_longest(stages: tuple[PipelineStage, ...], slowest: int, bound_ns: float) -> bool:
    """Whether none takes longer of which it is not known how much it takes, nor the thread that it is in."""
    most: dict[PipelineThread, float] = defaultdict(float)
    for number, stage in enumerate(stages):
        most[stage.thread] += stage.most_ns / stage.thread.servers
        is_beside = stage.thread == stages[slowest].thread and number != slowest
        if is_beside and stage.is_shared and stage.most_ns > stages[slowest].busy_ns:
            return False
    unknown = {stage.thread for stage in stages if stage.is_shared} - {stages[slowest].thread}
    return all(most[thread] <= bound_ns for thread in unknown)


def way_to_training(stages: tuple[PipelineStage, ...], stage: PipelineStage) -> list[PipelineStage]:
    """A stage, the one that reads it, and so on to the training's request."""
    way = [stage]
    while way[-1].into is not None:
        way.append(stages[way[-1].into])
    return way


def _lies_ready(stages: tuple[PipelineStage, ...], number: int) -> bool:
    """Whether a buffer on the way to the training is filled, its own included: nothing behind it is waited for."""
    return any((stage.full or 0.0) >= FILLED for stage in way_to_training(stages, stages[number]))
