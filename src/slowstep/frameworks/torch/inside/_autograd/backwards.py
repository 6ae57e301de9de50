"""Looks at the first backward passes of a process, at those whose loss or graph somebody wants, and, where the process has no optimizer, at
all: each then ends a step, see record/steps/by_hand.py.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._answers.last_loss import are_finite, losses_in
from slowstep.frameworks.torch.inside._autograd.embedding_tables import TableLooks
from slowstep.frameworks.torch.inside._autograd.graph_looks import GraphLooks
from slowstep.frameworks.torch.inside._autograd.graph_shapes import graph_shapes, most_uses
from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, graph_size, nodes_below
from slowstep.frameworks.torch.inside._autograd.unused_looks import UnusedLooks
from slowstep.frameworks.torch.inside._loader.padding_looks import PaddingLooks
from slowstep.record.recorder import now
from slowstep.record.steps.by_hand import ByHand

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Torch wraps the `step` of a class of optimizers when the first of them is built, and marks what it has wrapped.
_WRAPPED: Final = "hooked"
_COMPILED: Final = "CompiledFunction"
# The first passes may be a trial; the third is one of a step like the others, and still in the warm-up.
FIRST: Final = 3
# An optimizer may be built later; asking for it takes some ten microseconds.
_ASKED_OFTEN: Final = 100
_ASKED_EVERY: Final = 50


class Backwards:
    """Told of every pass while it is `on`: where it `begin`s, and where it has come to its `end` or `failed`. Raises nothing.

    A pass may run others, also on threads of their own (reentrant checkpoints): only those count beside which no other goes on.
    """

    __slots__ = ("_by_hand", "_looks", "_open", "_padding", "_recorder", "_seen", "_tensors_device", "on")

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._looks = recorder, GraphLooks(recorder, TableLooks(recorder), UnusedLooks(recorder))
        self.forget()
        recorder.forgetters.append(self.forget)
        self._padding = recorder.shared(PaddingLooks)
        self._padding.starters.append(self._start)
        recorder.last_loss.starters.append(self._start)
        recorder.last_loss.are_finite = are_finite

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self.on = True
        self._seen = self._open = 0
        self._by_hand: ByHand | None = None
        self._tensors_device: str | None = None
        self._looks.forget()

    def want_graphs(self) -> None:
        """Look at the graphs of the next passes; a chore of the sampler's thread."""
        # Whatever looks at the first passes is done.
        if self._seen >= FIRST and self._looks.want():
            self.on = True

    @property
    def _is_wanted(self) -> bool:
        return self._recorder.last_loss.is_wanted or self._looks.are_wanted or self._padding.passes > 0

    def begin(self, tensors: Any) -> None:
        """A pass begins at these tensors."""
        self._open += 1
        is_measured = self._seen == FIRST - 1
        if self._open == 1 and (is_measured or self._is_wanted):
            try:
                self._look(tensors, is_measured=is_measured)
            except Exception as error:  # the border: counted, and never raised into the training
                self._recorder.fault(error)

    def _look(self, tensors: Any, *, is_measured: bool) -> None:
        if is_measured:
            self._tensors_device = _device(tensors)
            self._note_size(tensors)
        if self._recorder.last_loss.is_wanted:
            self._recorder.last_loss.keep(losses_in(tensors))
        if self._looks.are_wanted:
            self._looks.look(tensors)
        if self._padding.passes:
            self._padding.passes -= 1
            self._note_shapes(tensors)

    def failed(self) -> None:
        """A pass has raised."""
        self._open = max(self._open - 1, 0)
        self._close_look()

    def end(self) -> None:
        """A pass is over, and recorded."""
        self._open = max(self._open - 1, 0)
        if self._open:
            return
        self._close_look()
        self._seen += 1
        try:
            if self._seen > FIRST:
                self._ends_step()
            elif self._seen == FIRST:
                self._decide()
            elif self._seen == 1:
                # Something trains, though no update may ever be seen.
                self._recorder.page.publish_backward(now())
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _close_look(self) -> None:
        if self._open:
            return
        try:
            self._looks.ended()
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _decide(self) -> None:
        if _builds_none():
            self._by_hand = ByHand(self._tensors_device)
        else:
            self.on = self._is_wanted

    def _start(self) -> None:
        self.on = True

    def _ends_step(self) -> None:
        by_hand, is_asked = self._by_hand, self._seen < _ASKED_OFTEN or self._seen % _ASKED_EVERY == 0
        if by_hand is None or not self._recorder.live[0] or (is_asked and not _builds_none()):
            self.on = self._is_wanted
            return
        for tell in self._recorder.by_hand:
            tell(by_hand)

    def _note_shapes(self, tensors: Any) -> None:
        nodes = nodes_below(tensors, MOST_NODES)
        # What is compiled is one node, whose values tell of nothing inside it.
        if nodes and not any(type(node).__name__.startswith(_COMPILED) for node in nodes):
            of = {"at_ns": now(), "nodes": len(nodes), "uses": most_uses(nodes)}
            self._recorder.note({"kind": "shapes", **of, "shapes": graph_shapes(nodes)})

    def _note_size(self, tensors: Any) -> None:
        size = graph_size(tensors)
        if size is not None:
            self._recorder.note({"kind": "graph", **size})


def _builds_none() -> bool:
    """Whether it is known that no optimizer was built."""
    return has_optimizer(sys.modules.get("torch.optim.optimizer")) is False


def _device(tensors: Any) -> str | None:
    first = tensors[0] if isinstance(tensors, (tuple, list)) and tensors else tensors
    return getattr(getattr(first, "device", None), "type", None)


def has_optimizer(module: Any) -> bool | None:
    """Whether this process has ever built an optimizer; `module` is torch.optim.optimizer. None where it does not say."""
    if not hasattr(getattr(module, "Optimizer", None), "_patch_step_function"):
        return None
    classes = [module.Optimizer]
    while classes:
        known = classes.pop()
        if getattr(vars(known).get("step"), _WRAPPED, None):
            return True
        classes.extend(known.__subclasses__())
    return False
