"""What the calls of a few functions are for: part of the model, or something beside it that the backward never goes through."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.record.framework import Framework

# Deeper than any training calls its model.
_DEEPEST: Final = 500
_COUNTED: Final = ("calls", "hooks", "inside", "gradient", "nothing", "early", "late", "nodes")


class CallCounter:
    """Counts calls on one thread. Each must end where it began; those that have not ended are not counted."""

    def __init__(self, framework: Framework, backwards: Callable[[], int] = lambda: 0) -> None:
        """`backwards`: how many backward passes of this thread have ended."""
        self._framework, self._backwards, self._before = framework, backwards, backwards()
        self._has_gradient, self._next_node = framework.has_gradient(), framework.graph_nodes()
        self._first_node = self._node()
        self._has_begun = False
        self._open: list[tuple[FrameType, int, bool, bool, bool]] = []
        self._found: dict[CodeType, dict[str, int]] = {}

    def any_call(self, code: CodeType) -> None:
        """A call of any function begins: of a module it is the model's, also where nothing is differentiated."""
        if not self._has_begun and code.co_filename.endswith(self._framework.model_files):
            self._has_begun = True

    def begin(self, frame: FrameType) -> None:
        """A call begins."""
        first_node = self._node()
        is_early = not self._has_begun and first_node == self._first_node
        self._open.append((frame, first_node, self._has_gradient(), is_early, self._backwards() > self._before))

    def end(self, frame: FrameType, returned: Any) -> None:
        """A call ends, with what it returns (None also where it raises)."""
        while self._open:
            begun, first_node, has_gradient, is_early, is_late = self._open.pop()
            if begun is frame:
                self._count(frame, self._node() - first_node, has_gradient, returned, is_early=is_early, is_late=is_late)
                return

    def leave(self) -> None:
        """Let go of calls that have not ended."""
        self._open.clear()

    def result(self) -> list[dict[str, Any]]:
        """One entry a function: its calls; of them those by a module's call and not as its `forward` (`hooks`), anywhere inside of a module
        (`inside`), with gradients on (`gradient`), that returned nothing (`nothing`), that began before the model, when no module had been
        called and nothing had added to the graph of gradients (`early`), and behind a backward pass (`late`); the `nodes` they added to
        that graph, and how many were added meanwhile in all (`of_nodes`).
        """
        added = self._node() - self._first_node
        return [
            {"file": code.co_filename, "function": code.co_qualname, "first_line": code.co_firstlineno, **counts, "of_nodes": added}
            for code, counts in self._found.items()
        ]

    def _node(self) -> int:
        return 0 if self._next_node is None else self._next_node()

    def _count(self, frame: FrameType, nodes: int, has_gradient: bool, returned: Any, *, is_early: bool, is_late: bool) -> None:
        callers, model_files = _callers(frame), self._framework.model_files
        is_backward = any(file.endswith(self._framework.backward_files) for file in callers)
        if self._next_node is None or is_backward or self._is_updates(callers, has_gradient):
            return
        counts = self._found.setdefault(frame.f_code, dict.fromkeys(_COUNTED, 0))
        counts["calls"] += 1
        counts["hooks"] += bool(callers) and callers[0].endswith(model_files) and frame.f_code.co_name != "forward"
        counts["inside"] += any(file.endswith(model_files) for file in callers)
        counts["gradient"] += has_gradient
        counts["nothing"] += returned is None
        counts["early"] += is_early
        counts["late"] += is_late
        counts["nodes"] += nodes

    def _is_updates(self, callers: list[str], has_gradient: bool) -> bool:
        """Whether an update called it; but an optimizer of the framework's calls a closure with gradients on, which is the model's."""
        inner = list(itertools.takewhile(lambda file: not file.endswith(self._framework.update_files), callers))
        folder = self._framework.update_folder
        is_closure = has_gradient and folder is not None and any(folder in file for file in inner)
        return len(inner) < len(callers) and not is_closure


def _callers(frame: FrameType) -> list[str]:
    """The files of a frame's callers, its own first."""
    files: list[str] = []
    caller = frame.f_back
    while caller is not None and len(files) < _DEEPEST:
        files.append(caller.f_code.co_filename.replace("\\", "/"))
        caller = caller.f_back
    return files
