"""What the calls of a function are for."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.record.timing.called import CallCounter


class Watched:
    """A function whose calls are counted, as a training's would be."""

    def __init__(self) -> None:
        self.called = CallCounter(FRAMEWORK)

    def __call__(self) -> None:
        frame = sys._getframe()
        self.called.begin(frame)
        self.called.end(frame, None)

    @property
    def calls(self) -> list[dict[str, Any]]:
        return self.called.result()


class OfTheUsers(torch.optim.Optimizer):
    """An optimizer that leaves gradients on."""

    def __init__(self, parameters: Any, watched: Watched) -> None:
        super().__init__(parameters, {})
        self.watched = watched

    def step(self, closure: Any = None) -> None:
        self.watched()


@pytest.mark.parametrize("optimizer", [torch.optim.LBFGS, torch.optim.SGD, torch.optim.Adam])
def test_what_a_closure_calls_is_looked_at(optimizer):
    parameter, watched = torch.nn.Parameter(torch.ones(3)), Watched()
    used = optimizer([parameter], lr=0.1)

    def closure() -> torch.Tensor:
        used.zero_grad()
        loss = (parameter**2).sum()
        loss.backward()
        watched()
        return loss

    used.step(closure)

    (row,) = watched.calls
    assert row["calls"] == row["gradient"] >= 1
    assert row["nodes"] == 0


def test_what_an_optimizer_of_the_users_calls_is_a_part_of_the_update():
    watched = Watched()

    OfTheUsers([torch.nn.Parameter(torch.ones(3))], watched).step()

    assert watched.calls == []


def test_what_hooks_of_an_optimizer_call_is_a_part_of_the_update():
    parameter, watched = torch.nn.Parameter(torch.ones(3)), Watched()
    used = torch.optim.SGD([parameter], lr=0.1)
    used.register_step_post_hook(lambda *_: watched())

    used.step()

    assert watched.calls == []


def test_what_is_called_behind_a_module_is_not_early_though_nothing_was_differentiated():
    watched, module = Watched(), torch.nn.Identity()

    watched()
    watched.called.any_call(type(module)._call_impl.__code__)
    watched()

    (row,) = watched.calls
    assert (row["calls"], row["early"]) == (2, 1)
