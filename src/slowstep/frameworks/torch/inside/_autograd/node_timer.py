"""How long a backward pass is in some of its nodes: by two hooks on each."""

from __future__ import annotations

import threading
import time
from typing import Any

# Without what it waits for a core, or for the GIL.
cpu_ns = time.thread_time_ns


class NodeTimer:
    """CPU time of the thread in some nodes, in one pass."""

    __slots__ = ("_began", "_calls", "_expected", "ns")

    def __init__(self) -> None:
        self._began: tuple[int, int] = (0, 0)
        self._calls = self._expected = self.ns = 0

    @property
    def is_known(self) -> bool:
        """Whether all of its nodes were gone through, each by one thread."""
        return 0 < self._calls == self._expected

    def watch(self, node: Any) -> tuple[Any, Any]:
        """Hook on to a node; both handles are to be removed when the pass is over."""
        self._expected += 1
        return node.register_prehook(self._before), node.register_hook(self._after)

    def _before(self, _: Any) -> None:
        self._began = (threading.get_ident(), cpu_ns())

    def _after(self, _: Any, __: Any) -> None:
        at_ns = cpu_ns()
        thread, began_ns = self._began
        if thread == threading.get_ident():
            self._calls += 1
            self.ns += at_ns - began_ns
