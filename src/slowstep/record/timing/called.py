"""What the calls of a few functions are for: part of the model, or something beside it that the backward never goes through."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.record.writing.own_frames import BACKWARD

MODULE_FILE: Final = "torch/nn/modules/module.py"
# Whoever is called by these is called by backward, or by an update; but a closure by one of torch's optimizers, with gradients on.
_UPDATE: Final = "torch/optim/optimizer.py"
_OPTIMIZERS: Final = "torch/optim/"
# Deeper than any training calls its model.
_DEEPEST: Final = 500


class CallCounter:
    """Counts calls on one thread. Each must end where it began; those that have not ended are not counted."""

    def __init__(self) -> None:
        torch = sys.modules.get("torch")
        self._has_gradient: Callable[[], bool] = getattr(torch, "is_grad_enabled", lambda: False)
        # The number of the next node of autograd's graph on this thread; not public, and only read.
        self._next_node: Callable[[], int] | None = getattr(getattr(torch, "autograd", None), "_get_sequence_nr", None)
        self._first_node = self._node()
        self._open: list[tuple[FrameType, int, bool]] = []
        self._found: dict[CodeType, dict[str, int]] = {}

    def begin(self, frame: FrameType) -> None:
        """A call begins."""
        self._open.append((frame, self._node(), self._has_gradient()))

    def end(self, frame: FrameType, returned: Any) -> None:
        """A call ends, with what it returns (None also where it raises)."""
        while self._open:
            begun, first_node, has_gradient = self._open.pop()
            if begun is frame:
                self._count(frame, self._node() - first_node, has_gradient, returned)
                return

    def leave(self) -> None:
        """Let go of calls that have not ended."""
        self._open.clear()

    def result(self) -> list[dict[str, Any]]:
        """One entry a function: its calls; of them those by a module's call and not as its `forward` (`hooks`), anywhere inside of a module
        (`inside`), with gradients on (`gradient`), and that returned nothing (`nothing`); the `nodes` they added to autograd's graph,
        and how many were added meanwhile in all (`of_nodes`).
        """
        added = self._node() - self._first_node
        return [
            {"file": code.co_filename, "function": code.co_qualname, "first_line": code.co_firstlineno, **counts, "of_nodes": added}
            for code, counts in self._found.items()
        ]

    def _node(self) -> int:
        return 0 if self._next_node is None else self._next_node()

    def _count(self, frame: FrameType, nodes: int, has_gradient: bool, returned: Any) -> None:
        callers = _callers(frame)
        if self._next_node is None or any(file.endswith(BACKWARD) for file in callers) or _is_updates(callers, has_gradient):
            return
        counts = self._found.setdefault(frame.f_code, dict.fromkeys(("calls", "hooks", "inside", "gradient", "nothing", "nodes"), 0))
        counts["calls"] += 1
        counts["hooks"] += bool(callers) and callers[0].endswith(MODULE_FILE) and frame.f_code.co_name != "forward"
        counts["inside"] += any(file.endswith(MODULE_FILE) for file in callers)
        counts["gradient"] += has_gradient
        counts["nothing"] += returned is None
        counts["nodes"] += nodes


def _is_updates(callers: list[str], has_gradient: bool) -> bool:
    """Whether an update called it, and not as a part of a closure."""
    inner = list(itertools.takewhile(lambda file: not file.endswith(_UPDATE), callers))
    return len(inner) < len(callers) and not (has_gradient and any(_OPTIMIZERS in file for file in inner))


def _callers(frame: FrameType) -> list[str]:
    """The files of a frame's callers, its own first."""
    files: list[str] = []
    caller = frame.f_back
    while caller is not None and len(files) < _DEEPEST:
        files.append(caller.f_code.co_filename.replace("\\", "/"))
        caller = caller.f_back
    return files
