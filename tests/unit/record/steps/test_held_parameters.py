"""Which optimizer had an optimizer's parameters before."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.record.steps.held_parameters import HeldParameters


class Parameter:
    pass


def optimizer(*parameters: Any) -> Any:
    return SimpleNamespace(param_groups=[{"params": list(parameters)}])


def test_an_optimizer_of_new_parameters_shares_none_and_one_of_the_same_names_who_had_them_last() -> None:
    held, head, body = HeldParameters(FRAMEWORK), Parameter(), Parameter()

    found = [held.describe(each, number) for number, each in enumerate((optimizer(head), optimizer(body, head), optimizer(head)), 1)]

    assert found == [{"shares": 0}, {"shares": 1}, {"shares": 2}]


def test_a_parameter_at_the_place_of_one_that_is_gone_is_new() -> None:
    held = HeldParameters(FRAMEWORK)
    held.describe(optimizer(Parameter()), 1)
    later = Parameter()
    # As where the new object has come to lie where the old one was.
    held._holders._known[id(later)] = next(iter(held._holders._known.values()))

    assert held.describe(optimizer(later), 2) == {"shares": 0}


def test_no_reference_of_ours_keeps_torch_from_swapping_parameters() -> None:
    torch = pytest.importorskip("torch")
    before = torch.__future__.get_swap_module_params_on_conversion()
    held, model = HeldParameters(FRAMEWORK), torch.nn.Linear(2, 2)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        assert held.describe(torch.optim.SGD(model.parameters(), lr=0.1), 1) == {}

        model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)

    assert model.weight.dtype == torch.float64


def test_a_parameter_made_of_several_tensors_which_torch_always_swaps_is_not_referred_to() -> None:
    class Sharded(Parameter):
        def __tensor_flatten__(self) -> None:
            """As DTensor has it."""

    sharded = Sharded()

    assert HeldParameters(FRAMEWORK).describe(optimizer(sharded), 1) == {}
    assert weakref.getweakrefs(sharded) == []


def test_of_an_optimizer_that_does_not_say_what_it_holds_nothing_is_known() -> None:
    assert HeldParameters(FRAMEWORK).describe(SimpleNamespace(), 1) == {}
