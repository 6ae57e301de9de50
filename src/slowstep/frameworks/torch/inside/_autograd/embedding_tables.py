"""Embedding tables in the graph of a backward pass: how many rows each has, how many of them the pass can touch, and what their gradient
takes.

All of it is torch's own: the type of a node, the shape of what its forward gave, its leaf. Saved tensors are looked at only where no hook
unpacks them, which would be the user's code. How long a table's node takes is known by two hooks on it for the one pass that is looked at.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slowstep.frameworks.torch.inside._answers.compiled import has_compiled
from slowstep.frameworks.torch.inside._autograd.graph_size import LEAF
from slowstep.frameworks.torch.inside._autograd.node_timer import NodeTimer
from slowstep.record.steps.held_parameters import ParameterHolders

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_LOOKUP: Final = "EmbeddingBackward0"
_BAG: Final = "EmbeddingBagBackward0"
# Of a bag's modes the one that knows no sparse gradient.
_MAX_MODE: Final = 2
# A compiled graph's node, which may hold lookups unseen.
_COMPILED: Final = "CompiledFunction"
# More tables than a recommender has; and so many passes are told of.
_MOST_TABLES: Final = 200
_MOST_LOOKS: Final = 4096


class _Table:
    """What is known of one table by now; `ids` is the most of a pass. None is unknown."""

    __slots__ = (
        "backward_ns",
        "ids",
        "is_dense_anyway",
        "is_sparse",
        "item_bytes",
        "lookups",
        "optimizer",
        "rows",
        "seen",
        "timed",
        "width",
    )

    def __init__(self, weight: Any) -> None:
        self.rows, self.width = (int(size) for size in weight.shape)
        self.item_bytes = int(weight.element_size())
        self.is_sparse = self.is_dense_anyway = False
        self.ids: int | None = 0
        self.optimizer: int | None = None
        self.lookups = self.seen = self.timed = self.backward_ns = 0

    def taken_by(self, lookups: list[Any], *, is_dense_anyway: bool) -> None:
        """A pass goes through these nodes, each of which takes rows of it."""
        self.seen += 1
        self.lookups = max(self.lookups, len(lookups))
        self.is_sparse = self.is_sparse or any(node._saved_sparse for node in lookups)
        self.is_dense_anyway = self.is_dense_anyway or is_dense_anyway or any(map(_knows_no_sparse, lookups))
        ids = [_ids(node, self.width) for node in lookups]
        self.ids = None if self.ids is None or None in ids else max(self.ids, sum(each or 0 for each in ids))

    def described(self) -> dict[str, Any]:
        """As the note has it; `backward_ns` is the mean of a pass."""
        return {
            **{name: getattr(self, name) for name in self.__slots__ if name not in ("backward_ns", "timed")},
            "backward_ns": self.backward_ns // self.timed if self.timed else None,
        }


class _Pass(NamedTuple):
    """What the pass that is looked at takes: the nodes of each table, and who has to be taken away afterwards."""

    timers: list[tuple[_Table, NodeTimer]]
    handles: list[Any]


class TableLooks:
    """Told of the nodes of a pass that begins, and of its end; notes what it found when twice as many passes were looked at."""

    __slots__ = ("_looks", "_open", "_recorder", "_tables")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._tables: dict[tuple[int, int, int], _Table] = {}
        self._looks = 0
        self._open: _Pass | None = None

    @property
    def is_open(self) -> bool:
        """Whether a pass that was looked at goes on."""
        return self._open is not None

    def look(self, nodes: set[Any]) -> None:
        """A pass begins that goes through these nodes, all of its graph."""
        if self._looks >= _MOST_LOOKS or any(type(node).__name__.startswith(_COMPILED) for node in nodes):
            return
        self._looks += 1
        self._open = self._begun(nodes)

    def _begun(self, nodes: set[Any]) -> _Pass:
        dense_anyway = _leaves_of_others(nodes)
        holders = self._recorder.shared(ParameterHolders)
        is_timed, timers = not has_compiled(), list[tuple[_Table, NodeTimer]]()
        handles: list[Any] = []
        for weight, lookups in _lookups(nodes):
            table = self._table(weight)
            if table is None:
                continue
            table.optimizer = holders.of(weight) or None
            table.taken_by(lookups, is_dense_anyway=id(weight) in dense_anyway)
            if is_timed and weight.device.type == "cpu" and not table.is_sparse:
                timer = NodeTimer()
                timers.append((table, timer))
                handles += [handle for node in lookups for handle in timer.watch(node)]
        return _Pass(timers, handles)

    def _table(self, weight: Any) -> _Table | None:
        rows, width = (int(size) for size in weight.shape)
        key = (id(weight), rows, width)
        if key not in self._tables and len(self._tables) < _MOST_TABLES:
            self._tables[key] = _Table(weight)
        return self._tables.get(key)

    def ended(self) -> None:
        """It is over: its nodes are left as they were."""
        ended, self._open = self._open, None
        if ended is None:
            return
        for handle in ended.handles:
            handle.remove()
        for table, timer in ended.timers:
            if timer.is_known:
                table.timed += 1
                table.backward_ns += timer.ns
        if self._looks & (self._looks - 1) == 0:
            tables = [table.described() for table in self._tables.values()]
            self._recorder.note({"kind": "tables", "looks": self._looks, "tables": tables})


def _lookups(nodes: set[Any]) -> list[tuple[Any, list[Any]]]:
    """Tables that rows of are taken from, each with the nodes of that; only torch's own parameters, whose attributes are no user's code."""
    parameter: Any = sys.modules["torch"].nn.Parameter
    found: dict[int, tuple[Any, list[Any]]] = {}
    for node in nodes:
        if type(node).__name__ in (_LOOKUP, _BAG):
            weight: Any = getattr(node.next_functions[0][0], "variable", None)
            if type(weight) is parameter and len(weight.shape) == 2 and all(weight.shape):
                found.setdefault(id(weight), (weight, []))[1].append(node)
    return list(found.values())


def _leaves_of_others(nodes: set[Any]) -> set[int]:
    """Parameters, by id(), that something else than taking rows uses too: their gradient is dense whatever the rows' is."""
    leaves = set()
    for node in nodes:
        for at, (following, _) in enumerate(node.next_functions):
            if type(following).__name__ == LEAF and (at or type(node).__name__ not in (_LOOKUP, _BAG)):
                leaves.add(id(following.variable))
    return leaves


def _knows_no_sparse(node: Any) -> bool:
    return bool(node._saved_scale_grad_by_freq) or getattr(node, "_saved_mode", None) == _MAX_MODE


def _ids(node: Any, width: int) -> int | None:
    """How many rows it takes, each counted as often as it is taken; None where nothing tells without the user's code."""
    if type(node).__name__ == _LOOKUP:
        given = getattr(node, "_input_metadata", None)
        return math.prod(given[0].shape) // width if given else None
    saved: Any = getattr(node, "_raw_saved_indices", None)
    # What a hook has packed is the user's.
    if not hasattr(saved, "unpack_hook") or saved.unpack_hook is not None or saved.data is None:
        return None
    return int(saved.data.numel())
