from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from made_traces import device, host, made_trace
from slowstep.analyses.python.callers import Callers
from slowstep.analyses.python.user_places import place_in_stack, user_function, user_place


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        ("train_ddp.py(184): <module>", "train_ddp.py"),
        ("train_ddp.py(12): main", "main (train_ddp.py:12)"),
        ("/home/me/proj/model.py(12): forward", "forward (/home/me/proj/model.py:12)"),
        ("torch/nn/modules/module.py(1743): _call_impl", None),
        ("/opt/venv/lib/python3.11/site-packages/timm/layers.py(3): forward", None),
        ("threading.py(953): run", None),
        ("transformers/trainer.py(2000): train", None),
        ("<built-in method append of list object at 0x7f0e871077c0>", None),
        ("nn.Module: Linear_0", None),
        ("<string>(2): f", None),
    ],
)
def test_a_function_is_the_users_unless_a_library_holds_it(frame, place):
    assert user_place(frame) == place


def test_the_ledger_names_functions_without_folders_and_no_script_as_a_whole():
    assert user_function("/home/me/proj/model.py(12): forward") == "forward (model.py:12)"
    assert user_function("train_ddp.py(184): <module>") is None


def test_the_innermost_function_of_the_user_in_a_stack_counts():
    assert place_in_stack("torch/nn/functional.py(9): linear;net.py(30): forward;train.py(7): main") == "forward (net.py:30)"
    assert place_in_stack("torch/nn/functional.py(9): linear;runpy.py(3): run") is None


def test_instants_are_led_back_to_operator_and_line():
    hosts = [
        host("train.py(5): main", 0, 100, kind="python"),
        host("torch/nn/modules/linear.py(9): forward", 8, 42, kind="python"),
        host("aten::linear", 10, 40),
        host("aten::addmm", 12, 38),
        host("Optimizer.step#SGD.step", 50, 90),
        host("aten::item", 60, 70, stack="torch/optim/sgd.py(3): step;opt.py(8): closure"),
        host("aten::_local_scalar_dense", 61, 69),
    ]
    callers = Callers(made_trace(hosts=hosts))

    around = callers.around(np.array([0, 0, 0, 0, 1, 0]), np.array([20, 5, 55, 65, 20, 300]) * 1000)

    assert around["operator"].to_list() == ["aten::linear", None, "Optimizer.step#SGD.step", "aten::item", None, None]
    assert around["innermost"].to_list() == ["aten::addmm", None, "Optimizer.step#SGD.step", "aten::_local_scalar_dense", None, None]
    assert around["where"].to_list() == [*["main (train.py:5)"] * 3, "closure (opt.py:8)", None, None]
    assert around["backward"].to_list() == [False, False, False, False, None, None]


def test_an_operator_that_goes_on_long_after_another_is_not_called_by_it():
    callers = Callers(made_trace(hosts=[host("aten::item", 0, 20), host("aten::sort", 15, 90), host("aten::sum", 100, 110)]))

    assert callers.around(pl.Series([0, 0]), pl.Series([50_000, 105_000]))["operator"].to_list() == ["aten::sort", "aten::sum"]


def test_nulls_are_around_nothing_and_an_empty_trace_is_no_error():
    callers = Callers(made_trace(hosts=[host("aten::mm", 0, 10)]))
    rows = callers.around(pl.Series([0, None], dtype=pl.Int32), pl.Series([5000, 5000]))

    assert rows["operator"].to_list() == ["aten::mm", None]
    assert Callers(made_trace()).around(np.array([0]), np.array([5]))["operator"].to_list() == [None]
    assert Callers(made_trace()).launched().height == 0


def backward_hosts() -> list[dict]:
    return [
        host("net.py(30): forward", 0, 40, kind="python"),
        host("aten::linear", 5, 15, sequence=7),
        host("aten::addmm", 6, 14, sequence=7),
        host("other.py(1): forward", 20, 30, kind="python"),
        host("aten::relu", 21, 29, sequence=8),
        host("autograd::engine::evaluate_function: AddmmBackward0", 50, 60, sequence=7, thread=1),
        host("AddmmBackward0", 51, 59, sequence=7, thread=1),
        host("aten::mm", 52, 58, thread=1),
        host("autograd::engine::evaluate_function: ReluBackward0", 60, 70, sequence=8, thread=1),
        host("again.py(4): run_fn", 61, 69, kind="python", thread=1),
        host("aten::relu", 62, 66, thread=1),
    ]


def test_the_line_of_a_backward_operator_is_its_forwards():
    around = Callers(made_trace(hosts=backward_hosts())).around(np.array([1]), np.array([55_000]))

    assert around.row(0) == ("aten::mm", "aten::mm", "forward (net.py:30)", True)


def test_a_function_that_runs_inside_the_backward_is_nearer_than_the_forward():
    around = Callers(made_trace(hosts=backward_hosts())).around(np.array([1]), np.array([64_000]))

    assert around["where"].item() == "run_fn (again.py:4)"


def test_device_events_are_led_back_by_correlation_else_by_the_operators_number():
    hosts = [
        host("aten::mm", 0, 20, external=5),
        host("cudaLaunchKernel", 4, 8, kind="runtime", correlation=90),
        host("cuLaunchKernel", 5, 7, kind="driver", correlation=90),
        host("aten::add", 20, 30, external=6),
    ]
    devices = [
        device("k", 30, 40, correlation=90, external=6),
        device("k", 40, 50, correlation=91, external=6),
        device("k", 50, 60),
    ]

    launched = Callers(made_trace(hosts=hosts, devices=devices)).launched()

    assert launched["operator"].to_list() == ["aten::mm", "aten::add", None]
    assert launched["call"].to_list() == ["cudaLaunchKernel", None, None]
    assert launched["call_end_ns"].to_list() == [8000, None, None]


def test_modules_are_told_of_forward_and_backward():
    hosts = [
        host("net.py(30): forward", 0, 40, kind="python"),
        host("nn.Module: Net_0", 1, 39, kind="python"),
        host("nn.Module: Linear_3", 4, 16, kind="python"),
        host("aten::linear", 5, 15, sequence=7),
        host("aten::relu", 21, 29, sequence=8),
        host("AddmmBackward0", 51, 59, sequence=7, thread=1),
        host("aten::mm", 52, 58, thread=1),
        host("aten::add", 70, 80),
    ]
    callers = Callers(made_trace(hosts=hosts))

    found = callers.modules(callers.indices_around(np.array([0, 0, 1, 0, 0]), np.array([10, 25, 55, 75, 300]) * 1000))

    assert found.to_list() == ["Linear_3", "Net_0", "Linear_3", None, None]
    assert Callers(made_trace(hosts=hosts[3:])).modules(np.array([0])) is None
