"""Looks at the graphs of a few backward passes all over a run: how large they are, and whether they hold what earlier steps have made."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._autograd.embedding_tables import TableLooks
from slowstep.frameworks.torch.inside._autograd.graph_products import multiplied_types
from slowstep.frameworks.torch.inside._autograd.graph_repeats import find_repeats
from slowstep.frameworks.torch.inside._autograd.graph_size import LEAF, MOST_NODES, is_of_leaves_alone, nodes_until
from slowstep.frameworks.torch.inside._autograd.graph_work import GraphWork, graph_work
from slowstep.frameworks.torch.inside._autograd.product_looks import ProductLooks
from slowstep.frameworks.torch.inside._autograd.unused_looks import UnusedLooks
from slowstep.record.recorder import now
from slowstep.record.writing.format import GRAPH

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Passes in a row that are looked at: of trainings that take several for a step (a critic's and a generator's) each is seen, and of what
# comes back every so many steps some.
PASSES: Final = 8
# Looking takes no more than a five-hundredth of the time: 1 us a node, and of fewer nodes than these 2 us more (on two shared cores). To
# note what a graph computes takes 10 to 20 us a node, for which looks wait.
_ELAPSED_PER_COST: Final = 500
MOST_MEASURED: Final = 1000
_NOTE_NS: Final = 15_000
# That is noted of looks whose numbers are Fibonacci's, up to this one, and of each graph that is as large as none before, to a tenth:
# passes of several kinds may take turns, and layers begin to learn later.
_MOST_NOTED: Final = 4096
_ALIKE: Final = 1.1
_MOST_SIZES: Final = 64
UNMEASURED: Final = "large graph"
# What a look waits for a core is no cost of looking.
cpu_ns = time.thread_time_ns


class GraphLooks:
    """A round of looks is `wanted` by the sampler's thread, twice a second, and taken by the thread that runs backward passes."""

    __slots__ = (
        "_began_ns",
        "_border",
        "_first",
        "_left",
        "_looks",
        "_noted",
        "_owed_ns",
        "_products",
        "_recorder",
        "_round",
        "_sizes",
        "_spent_ns",
        "_tables",
        "_unused",
    )

    def __init__(self, recorder: Recorder, tables: TableLooks | None = None, unused: UnusedLooks | None = None) -> None:
        self._recorder, self._tables, self._unused, self._products = recorder, tables, unused, ProductLooks(recorder)
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._left = self._spent_ns = self._owed_ns = self._began_ns = self._looks = self._round = 0
        self._noted = (1, 2)
        self._sizes: list[tuple[int, int, int]] = []
        # The number of the first node after the first look of the last round, and of the round before.
        self._first: int | None = None
        self._border: int | None = None
        self._products.forget()
        if self._tables is not None:
            self._tables.forget()
        if self._unused is not None:
            self._unused.forget()

    @property
    def are_wanted(self) -> bool:
        """Whether the next pass is to be looked at."""
        return self._left > 0

    def want(self) -> bool:
        """Ask for the next round, where the last one is over and there is time for it; whether looks are wanted now."""
        if self._left:
            return True
        at_ns = now()
        self._began_ns = self._began_ns or at_ns
        owed_ns = max(self._owed_ns, 0 if self._unused is None else self._unused.owed_ns)
        if not self._bears(owed_ns, at_ns):
            return False
        self._owed_ns = 0
        self._round += 1
        self._border, self._first = self._first, None
        self._left = PASSES
        return True

    def look(self, tensors: Any) -> None:
        """A pass begins at these tensors, and is one of the round."""
        began_ns, began_cpu_ns = now(), cpu_ns()
        self._left -= 1
        try:
            self._look(tensors, began_ns)
        finally:
            # Also of a look that fails: it would cost as much the next time.
            self._spend(cpu_ns() - began_cpu_ns)
        if not self._bears(0, began_ns):
            # What only the next pass tells is worth one look more.
            self._left = min(self._left, int(self._unused is not None and self._unused.are_to_follow))

    def _look(self, tensors: Any, began_ns: int) -> None:
        nodes, is_whole = nodes_until(tensors, MOST_NODES)
        kept = None if self._border is None else _made_before(nodes, self._border)
        if self._first is None:
            self._first = _next_node()
        if nodes:
            elements = _trained(nodes) if is_whole else -1
            is_measured = is_whole and len(nodes) <= MOST_MEASURED
            values = _elements(nodes) if is_measured else -1
            self._recorder.event(GRAPH, began_ns, began_ns, len(nodes), elements, values, kept or 0, int(kept is not None))
            self._note_work(nodes if is_measured else set(), (len(nodes), max(elements, 0), max(values, 0)), began_ns)
            if is_whole and self._tables is not None:
                self._tables.look(nodes)
            if is_whole and self._unused is not None:
                self._unused.look(nodes, began_ns, self._round, self._bearable_ns(began_ns))

    def _bears(self, cost_ns: int, at_ns: int) -> bool:
        """Whether there was time enough for what looks have cost, and this."""
        return cost_ns <= self._bearable_ns(at_ns)

    def _bearable_ns(self, at_ns: int) -> int:
        """What a look may cost: less than nothing where those before have cost more."""
        return (at_ns - self._began_ns) // _ELAPSED_PER_COST - self._spent_ns

    def _note_work(self, nodes: set[Any], size: tuple[int, int, int], at_ns: int) -> None:
        """No nodes: too many of them."""
        self._looks += 1
        due, following = self._noted
        is_due = due <= min(self._looks, _MOST_NOTED)
        is_new = len(self._sizes) < _MOST_SIZES and not any(_are_alike(size, known) for known in self._sizes)
        cost_ns = _NOTE_NS * len(nodes)
        if not (is_due or is_new) or not self._bears(cost_ns, at_ns):
            self._owed_ns = cost_ns if is_due or is_new else self._owed_ns
            return
        self._noted = (following, due + following) if is_due else self._noted
        self._sizes += [size] if is_new else []
        work = graph_work(nodes) if nodes else GraphWork(0, 0, 0, 0, (UNMEASURED,))
        self._recorder.note({"kind": "work", "at_ns": at_ns, **work._asdict(), **find_repeats(nodes)._asdict(), **multiplied_types(nodes)})
        if nodes:
            self._products.look(nodes, at_ns)

    def ended(self) -> None:
        """The pass that was looked at is over, or has failed."""
        if self._products.is_open:
            began_cpu_ns = cpu_ns()
            hooks_ns = self._products.ended()
            self._spend(cpu_ns() - began_cpu_ns + hooks_ns)
        if self._tables is not None and self._tables.is_open:
            began_cpu_ns = cpu_ns()
            self._tables.ended()
            self._spend(cpu_ns() - began_cpu_ns)
        if self._unused is not None and self._unused.is_open:
            began_cpu_ns = cpu_ns()
            hooks_ns = self._unused.ended()
            self._spend(cpu_ns() - began_cpu_ns + hooks_ns)

    def _spend(self, ns: int) -> None:
        self._spent_ns += ns
        self._recorder.spent_ns += ns


def _are_alike(size: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return all(max(pair) <= _ALIKE * min(pair) for pair in zip(size, other, strict=True))


def _next_node() -> int | None:
    # The number of the next node on this thread; not public, and only read.
    next_node = getattr(getattr(sys.modules.get("torch"), "autograd", None), "_get_sequence_nr", None)
    return None if next_node is None else int(next_node())


def _made_before(nodes: set[Any], border: int) -> int | None:
    """How many of them were made before the node of that number; None where nodes do not tell theirs."""
    numbers = [number() for number in (getattr(node, "_sequence_nr", None) for node in nodes) if number is not None]
    # A leaf's has the largest of all numbers.
    return sum(number < border for number in numbers) if numbers else None


def _trained(nodes: set[Any]) -> int:
    """Elements of the parameters that get a gradient; an input that wants one is none."""
    parameter: Any = sys.modules["torch"].nn.Parameter
    leaves = [node.variable for node in nodes if type(node).__name__ == LEAF]
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, parameter))


def _elements(nodes: set[Any]) -> int:
    """Elements of all that operations gave, but for what they made of parameters alone (a weight turned); -1 where nodes do not tell."""
    total = 0
    for node in nodes:
        if type(node).__name__ == LEAF or is_of_leaves_alone(node):
            continue
        given = getattr(node, "_input_metadata", None)
        if given is None:
            return -1
        total += sum(math.prod(each.shape) for each in given)
    return total
