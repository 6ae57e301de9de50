"""How long backward takes in operations that multiply: in a pass that is looked at, by two hooks on each of their nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._answers.compiled import has_compiled
from slowstep.frameworks.torch.inside._autograd.graph_products import UNTOLD, NodeProducts, find_products
from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# What calling a node's two hooks takes, which is no time of the looks themselves.
HOOKS_NS: Final = 10_000


class ProductLooks:
    """Told of the nodes of a pass that begins, and of its end; notes what it found then."""

    __slots__ = ("_at_ns", "_handles", "_recorder", "_timed")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._at_ns = 0
        self._timed: list[tuple[NodeProducts, list[_NodeTime]]] | None = None
        self._handles: list[Any] = []

    @property
    def is_open(self) -> bool:
        """Whether a pass that was looked at goes on."""
        return self._timed is not None

    def look(self, nodes: Iterable[Any], at_ns: int) -> None:
        """A pass begins that goes through these nodes, all of its graph."""
        self._close()
        found = None if has_compiled() else find_products(nodes)
        if found is None:
            return
        self._at_ns, self._timed = at_ns, []
        for of, alike in found.items():
            times = [_NodeTime() for _ in alike]
            self._timed.append((of, times))
            if of.products == UNTOLD:
                # Of another type, or on a device, whose passes no clock of the host's tells.
                continue
            for node, each in zip(alike, times, strict=True):
                self._handles += each.watch(node)

    def ended(self) -> int:
        """It is over: its nodes are left as they were. How long their hooks took, about (ns)."""
        timed = self._close()
        rows = [[*of[:2], len(times), *of[2:-1], *_longest_and_all(times), of.kernel] for of, times in timed]
        self._recorder.note({"kind": "products", "at_ns": self._at_ns, "rows": rows})
        return HOOKS_NS * sum(len(times) for of, times in timed if of.products != UNTOLD)

    def _close(self) -> list[tuple[NodeProducts, list[_NodeTime]]]:
        timed, handles = self._timed or [], self._handles
        self._timed, self._handles = None, []
        for handle in handles:
            handle.remove()
        return timed


class _NodeTime:
    """How long one node of a pass took, by the clock; UNTOLD where not one thread went through it once."""

    __slots__ = ("_began", "_calls", "_ns")

    def __init__(self) -> None:
        self._began: tuple[int, int] = (0, 0)
        self._calls = self._ns = 0

    @property
    def ns(self) -> int:
        """All of it."""
        return self._ns if self._calls == 1 else UNTOLD

    def watch(self, node: Any) -> tuple[Any, Any]:
        """Hook on to a node; both handles are to be removed when the pass is over."""
        return node.register_prehook(self._before), node.register_hook(self._after)

    def _before(self, _: Any) -> None:
        self._began = (threading.get_ident(), now())

    def _after(self, _: Any, __: Any) -> None:
        at_ns = now()
        thread, began_ns = self._began
        if thread == threading.get_ident():
            self._calls += 1
            self._ns += at_ns - began_ns


def _longest_and_all(times: list[_NodeTime]) -> tuple[int, int]:
    known = [each.ns for each in times]
    return (UNTOLD, UNTOLD) if UNTOLD in known else (max(known), sum(known))
