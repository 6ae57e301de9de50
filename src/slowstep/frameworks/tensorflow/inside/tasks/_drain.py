"""Reads a pipeline, or the first stages of it, as fast as it gives, for some seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._model import is_asynchronous
from slowstep.frameworks.tensorflow.inside.tasks._reader import DatasetReader, Element
from slowstep.record.experiment.account import Account
from slowstep.record.experiment.loader_reading import LEAST_BATCHES, OVERTIME, ROW_NS, Drained, Edges, said, sum_known
from slowstep.record.recorder import now

# Of its time so much goes by first: buffers are filled, and autotune chooses how many calls are made at once.
_WARM_UP: Final = 0.25
# So many batches, while there is any time left for anything: from fewer no speed is told.
_FEW_BATCHES: Final = 2
# As TensorFlow words what a function of the script's raised.
_RAISED: Final = re.compile(r"transformation with iterator: \S+: (.+)")
_MOST_SAID: Final = 200
_PREFETCH: Final = "Prefetch"
# A training whose input runs ahead but for this share of its time is taken for one whose input does so wholly, and one whose input runs
# when it is asked for but for this share, for one that makes all of it then: the prediction of the whole is off by a tenth at most, within
# which halves explain a whole (`CLOSE` in prove/bench/overlap.py).
_NEARLY_NONE: Final = 0.1


class PipelineDrain:
    """One reading of the data set that a function gives, in epochs where it ends.

    `window`: see DatasetReader. `inputs_per_element`: that of the stage `kind`. It and `runs_ahead` are None where nothing is counted.
    Slow batches may take it beyond its time, and in the end until `until_ns`. `least`: as many requests, in three times its time.
    """

    def __init__(self, dataset: Any, kind: str, *, seconds: float, until_ns: int, window: int = 0, least: int = LEAST_BATCHES) -> None:
        self._dataset, self._kind, self._window, self._least = dataset, kind, window, least
        self._limit_ns, self._until_ns = int(seconds * 1e9), until_ns
        self._drained = Drained(workers=0)
        self.inputs_per_element: float | None = None
        self.runs_ahead: bool | None = None
        self._account: Account | None = None
        self._row: list[int] = []
        self._began_ns = self._last_ns = now()
        self._counted_ns = self._requests = self._elements = self._longest = 0

    def run(self) -> Drained:
        """Read. Whatever the pipeline raises ends it, as the `reason`."""
        try:
            while not self._is_over():
                self._read_epoch()
        except Exception as error:  # the script's own functions raise whatever they like: said as the reason
            self._drained.reason = _said(error)
        self._end_row()
        if self._account is not None:
            self._account.look()
            self._drained.slices = self._account.slices
        return self._drained

    def _read_epoch(self) -> None:
        """From the start of an iterator until the time is over, or the data set."""
        drained, edges, counted = self._drained, Edges(), 0
        self._last_ns = began_ns = now()
        reader = DatasetReader(self._dataset(), self._window)
        try:
            self._fill(edges, reader)
            drained.starts_ns.append(edges.start_ns)
            while self._account is None and now() - self._began_ns < edges.start_ns + _WARM_UP * self._limit_ns:
                self._fill(edges, reader)
            self._begin_account()
            while not self._is_over():
                self._count(reader)
                counted += 1
        except StopIteration:
            if not edges.filled:
                raise ValueError("it gave nothing when it was read again") from None
            edges.end_ns, edges.batches = now() - self._last_ns, edges.filled + counted
        drained.epoch_batches = None if self._window else reader.length()
        self._end_epoch(edges, counted)
        # Of a few elements most of what was taken may lie in a buffer still.
        if edges.filled + counted > self._longest:
            self._longest = edges.filled + counted
            self._learn(reader.model(), now() - began_ns)

    def _learn(self, model: Any, wall_ns: int) -> None:
        if model is not None:
            self.inputs_per_element, self.runs_ahead = inputs_per_element(model, self._kind), runs_ahead(model, wall_ns)

    def _fill(self, edges: Edges, reader: DatasetReader) -> None:
        ns, element = self._receive(reader)
        edges.add(ns, element.samples, element.samples, element.size_bytes)

    def _begin_account(self) -> None:
        if self._account is None:
            self._account = Account((), self._producers)
            self._last_ns = now()

    def _end_epoch(self, edges: Edges, counted: int) -> None:
        drained = self._drained
        drained.skipped += edges.filled
        if len(drained.starts_ns) > 1:
            # What begins a reading does not use up its time.
            self._counted_ns += edges.start_ns + edges.fill_ns + max(edges.end_ns, 0)
            self._requests += 0 if counted else edges.filled
        drained.edges.append(edges)
        self._end_row()

    def _count(self, reader: DatasetReader) -> None:
        """The next batch into the rows."""
        ns, element = self._receive(reader)
        self._drained.seen = sum_known(self._drained.seen, element.samples)
        one = (ns, element.count, element.samples, element.size_bytes)
        self._row = [sum_known(*pair) for pair in zip(self._row or [0] * 4, one, strict=True)]
        self._requests += 1
        self._counted_ns += ns
        if self._row[0] >= ROW_NS:
            self._end_row()
        if self._account is not None and self._account.is_due(self._last_ns):
            self._last_ns += self._account.look()

    def _receive(self, reader: DatasetReader) -> tuple[int, Element]:
        element, at_ns = reader.read(), now()
        ns, self._last_ns = at_ns - self._last_ns, at_ns
        self._elements += element.count
        return ns, element

    def _producers(self) -> dict[str, int]:
        """What the threads of the framework have used: they are all of this process."""
        return {"batches": self._elements, "wall_ns": self._counted_ns, "process_ns": time.process_time_ns()}

    def _is_over(self) -> bool:
        if now() - self._began_ns > OVERTIME * self._limit_ns:
            return self._requests >= _FEW_BATCHES or now() > self._until_ns
        return self._counted_ns >= self._limit_ns and self._requests >= self._least

    def _end_row(self) -> None:
        if self._row:
            self._drained.rows.append(self._row)
            self._row = []


def _said(error: Exception) -> str:
    """An exception in one line; of one that came of a function in a stage, what that raised."""
    raised = _RAISED.search(str(error))
    return said(error) if raised is None else raised[1][:_MOST_SAID]


def inputs_per_element(model: Any, kind: str) -> float | None:
    """How many elements a stage has taken of its input for each that it gave; None where that is not counted."""
    nodes, number = dict(model.nodes.items()), model.output
    while (node := nodes.get(number)) is not None and node.inputs:
        taken, number = nodes.get(node.inputs[0]), node.inputs[0]
        if kind in node.name:
            return taken.num_elements / node.num_elements if taken is not None and node.num_elements else None
    return None


def runs_ahead(model: Any, wall_ns: int) -> bool | None:
    """Whether elements are made while nobody asks for one, by what its stages took in so long a time; None where a part of the work is.

    Stages run when they are asked for an element, up to the first that works in threads of its own: as TensorFlow runs them, which makes
    several stages one, and puts a prefetch behind them.
    """
    if not any(_works_ahead(node) for node in model.nodes.values()):
        return False
    asked_ns = sum(node.processing_time for node in _run_when_asked(model))
    if asked_ns <= _NEARLY_NONE * wall_ns:
        return True
    # In several threads others take less of the time than this.
    all_ns = sum(node.processing_time for node in model.nodes.values())
    return False if all_ns - asked_ns <= _NEARLY_NONE * all_ns else None


def _run_when_asked(model: Any) -> Iterator[Any]:
    waiting = [model.output]
    while waiting:
        node = model.nodes.get(waiting.pop())
        if node is not None and not _works_ahead(node):
            yield node
            waiting += node.inputs


def _works_ahead(node: Any) -> bool:
    # Without a buffer a prefetch hands on what it is asked for.
    return is_asynchronous(node) and (
        node.name != _PREFETCH or any(each.name == "buffer_size" and each.state_value for each in node.parameters)
    )
