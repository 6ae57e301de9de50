"""Gradients of parameters that no optimizer holds: whether anybody takes them, and how long backward is at those of which nobody does.

A gradient that is used is cleared for the next one, or written to (clipped, averaged), or its parameter changes. One that nobody uses grows
from pass to pass, and only by these: torch counts what is written to a tensor. A parameter that changes is somebody's all the same.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from slowstep.frameworks.torch.inside._answers.compiled import has_compiled
from slowstep.frameworks.torch.inside._autograd.graph_unused import UnusedWork, find_unused, unheld_parameters
from slowstep.frameworks.torch.inside._autograd.known_optimizers import KnownOptimizers
from slowstep.frameworks.torch.inside._autograd.named_modules import find_name
from slowstep.frameworks.torch.inside._autograd.node_timer import NodeTimer
from slowstep.frameworks.torch.inside._autograd.product_looks import HOOKS_NS
from slowstep.record.steps.held_parameters import ParameterHolders

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# So many passes are timed: their median stays. And so many are told of.
_MOST_TIMED: Final = 12
_MOST_NOTES: Final = 256
# Hooks on more nodes than these take so long that all looks would wait for the time that is allowed for them.
_MOST_WATCHED: Final = 2000
# Parameters may be made anew for every pass.
_MOST_GRADIENTS: Final = 20_000
# After so many looks that find none, there are none any more: passes of several kinds may take turns.
_MOST_EMPTY: Final = 24
# What a look waits for a core is no cost of looking.
cpu_ns = time.thread_time_ns
KEPT: Final = "kept"
TOUCHED: Final = "touched"
NONE: Final = "none"


class _Gradient:
    """What is known of the gradient of one parameter by now; a version of None is that of none."""

    __slots__ = ("_began", "_ended", "_round", "_state", "is_changed", "is_touched", "rounds", "times_kept", "without")

    def __init__(self) -> None:
        self._began: int | None = None
        self._ended: int | None = None
        self._round = self.rounds = self.times_kept = self.without = 0
        self._state: tuple[int, float | None] | None = None
        self.is_changed = self.is_touched = False

    @property
    def is_kept(self) -> bool:
        """Whether nobody is known to use it, and it was seen to stay as backward has left it."""
        return self.times_kept > 0 and not (self.is_changed or self.is_touched or self.without)

    def begins(self, parameter: Any, number: int) -> None:
        """A pass begins that leads to the parameter, in the round of that number: one of passes that follow one another."""
        version = _version(parameter.grad)
        if self._round == number:
            self._follows(version == self._ended is not None, is_next=True)
        else:
            if self._round:
                self._follows(version is not None and version >= (self._ended or 0), is_next=False)
            self._compare(parameter)
        self._began, self._round = version, number

    def _follows(self, is_kept: bool, *, is_next: bool) -> None:
        self.times_kept += is_kept and is_next
        self.is_touched = self.is_touched or not is_kept

    def _compare(self, parameter: Any) -> None:
        state = (int(parameter._version), _last_element(parameter))
        self.is_changed = self.is_changed or (self._state is not None and state != self._state)
        self._state = state
        self.rounds += 1

    def ends(self, parameter: Any) -> None:
        """The pass is over: where it was asked for some gradients only (`inputs`), there may be none of it."""
        self._ended = _version(parameter.grad)
        self.without += self._ended == self._began


class _Passing(NamedTuple):
    """The pass that is looked at: its parameters that no optimizer holds; where it is timed what it does, and who has to be taken away."""

    at_ns: int
    parameters: list[Any]
    nodes: int
    work: UnusedWork | None
    alone: NodeTimer
    halves: NodeTimer
    handles: list[Any]


class UnusedLooks:
    """Told of the nodes of a pass that begins, and of its end. Nothing is noted where optimizers hold all that gets a gradient."""

    __slots__ = (
        "_empty",
        "_found",
        "_gradients",
        "_looks",
        "_name",
        "_named_ns",
        "_notes",
        "_open",
        "_recorder",
        "_state",
        "_timed",
        "owed_ns",
    )

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._gradients: dict[int, _Gradient] = {}
        self._looks = self._found = self._empty = self._timed = self._notes = self._named_ns = self.owed_ns = 0
        self._state = NONE
        self._name: str | None = None
        self._open: _Passing | None = None

    @property
    def is_open(self) -> bool:
        """Whether a pass that was looked at goes on."""
        return self._open is not None

    @property
    def are_to_follow(self) -> bool:
        """Whether the next pass tells what this one cannot: whether a gradient stays as it is until then."""
        return any(not each.times_kept and not each.is_touched for each in self._gradients.values())

    def look(self, nodes: set[Any], at_ns: int, number: int, left_ns: int) -> None:
        """A pass begins that goes through these nodes, all of its graph, in the round of that number; so much time may be spent on it."""
        self._looks += 1
        if self._looks == 1:
            # That somebody looks.
            self._note(at_ns, NONE, None)
        parameters = self._unheld(nodes)
        if not parameters:
            self._passed(at_ns)
            return
        self._found += 1
        self._empty = 0
        if len(self._gradients) > _MOST_GRADIENTS:
            self._gradients.clear()
        for parameter in parameters:
            self._gradients.setdefault(id(parameter), _Gradient()).begins(parameter, number)
        self._begin(nodes, parameters, at_ns, left_ns)

    def _passed(self, at_ns: int) -> None:
        """What no optimizer held may be held by now."""
        self._empty += 1
        if self._empty >= _MOST_EMPTY and self._state != NONE:
            self._gradients.clear()
            self._note(at_ns, NONE, None)

    def _unheld(self, nodes: set[Any]) -> list[Any]:
        held, holders = self._recorder.shared(KnownOptimizers).held(), self._recorder.shared(ParameterHolders)
        return unheld_parameters(nodes, lambda leaf: id(leaf) in held or holders.of(leaf) > 0)

    def _begin(self, nodes: set[Any], parameters: list[Any], at_ns: int, left_ns: int) -> None:
        seen = {id(parameter): self._gradients[id(parameter)] for parameter in parameters}
        known = [each for each in seen.values() if each.times_kept or each.is_touched or each.is_changed]
        work = find_unused(nodes, _worst(seen)) if len(known) == len(seen) and self._timed < _MOST_TIMED else None
        is_timed = work is not None and _can_be_timed(work, parameters)
        if work is not None and is_timed:
            cost_ns = HOOKS_NS * (len(work.alone) + len(work.halves))
            self.owed_ns = cost_ns if cost_ns > left_ns else 0
            work = None if self.owed_ns else work
        self._open = ended = _Passing(at_ns, parameters, len(nodes), work, NodeTimer(), NodeTimer(), [])
        if work is not None and is_timed:
            for node in work.alone:
                ended.handles.extend(ended.alone.watch(node))
            for node in work.halves:
                ended.handles.extend(ended.halves.watch(node))

    def ended(self) -> int:
        """It is over: its nodes are left as they were. How long their hooks took, about (ns), less what is spent once."""
        ended, self._open = self._open, None
        if ended is None:
            return 0
        for handle in ended.handles:
            handle.remove()
        for parameter in ended.parameters:
            self._gradients[id(parameter)].ends(parameter)
        state = self._state_of(ended)
        if ended.work is not None or state != self._state:
            self._timed += ended.work is not None
            self._note(ended.at_ns, state, ended)
        named_ns, self._named_ns = self._named_ns, 0
        return HOOKS_NS * len(ended.handles) // 2 - named_ns

    def _state_of(self, ended: _Passing) -> str:
        gradients = [self._gradients[id(parameter)] for parameter in ended.parameters]
        if any(each.is_kept for each in gradients):
            return KEPT
        if all(each.without for each in gradients):
            return NONE
        return TOUCHED if all(each.is_touched or each.is_changed or each.without for each in gradients) else self._state

    def _note(self, at_ns: int, state: str, ended: _Passing | None) -> None:
        """What is known by now, and how long this pass took for nothing where it was timed."""
        self._state = state
        self._notes += 1
        if self._notes > _MOST_NOTES:
            return
        work = None if ended is None else ended.work
        note = {"kind": "unused", "at_ns": at_ns, "state": state, "looks": self._looks, "found": self._found}
        if ended is not None:
            note |= self._parameters_of(ended, state)
        if ended is not None and work is not None:
            note |= {"nodes": ended.nodes, "alone": len(work.alone), "halves": len(work.halves), "passing": work.passing}
        if ended is not None and work is not None and ended.handles:
            are_known = ended.alone.is_known and (ended.halves.is_known or not work.halves)
            note |= {"alone_ns": ended.alone.ns, "halves_ns": ended.halves.ns} if are_known else {}
        self._recorder.note(note)

    def _find_name(self, parameters: set[int]) -> None:
        """What it takes is spent once, however long the training runs, and looks need not wait for it."""
        began_ns = cpu_ns()
        self._name = find_name(sys._getframe(), parameters, self._recorder.shared(KnownOptimizers).held()) or ""
        self._named_ns = cpu_ns() - began_ns
        self._recorder.once_ns += self._named_ns

    def _parameters_of(self, ended: _Passing, state: str) -> dict[str, Any]:
        gradients = {id(parameter): self._gradients[id(parameter)] for parameter in ended.parameters}
        meant = _worst(gradients)
        parameters = [parameter for parameter in ended.parameters if id(parameter) in meant]
        if self._name is None and state == KEPT:
            self._find_name(meant)
        return {
            "parameters": len(parameters),
            "elements": sum(parameter.numel() for parameter in parameters),
            "rounds": min(gradients[id(parameter)].rounds for parameter in parameters),
            **({"name": self._name} if self._name else {}),
        }


def _can_be_timed(work: UnusedWork, parameters: list[Any]) -> bool:
    """What a device does no clock of the host's tells."""
    is_here = all(parameter.device.type == "cpu" for parameter in parameters)
    return is_here and len(work.alone) + len(work.halves) <= _MOST_WATCHED and not has_compiled()


def _worst(gradients: dict[int, _Gradient]) -> set[int]:
    """Those that nobody uses, by id() of their parameters; where there is none, all of which this is not known."""
    kept = {key for key, each in gradients.items() if each.is_kept}
    return kept or {key for key, each in gradients.items() if not each.without} or set(gradients)


def _version(gradient: Any) -> int | None:
    return None if gradient is None else int(gradient._version)


def _last_element(parameter: Any) -> float | None:
    """None where reading it would wait for a device, and of complex numbers."""
    if parameter.device.type != "cpu" or not parameter.numel() or parameter.is_complex():
        return None
    return float(parameter.detach()[(-1,) * parameter.dim()])
