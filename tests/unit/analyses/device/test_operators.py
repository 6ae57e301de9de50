from __future__ import annotations

import polars as pl
import pytest

from made_steps import steps
from made_traces import device, host, made_trace
from slowstep.analyses.device.operators import find_operators, mostly_on_host
from slowstep.analyses.device.placement import find_placement
from slowstep.analyses.device.precision import precision_of
from slowstep.analyses.events.tables import OPERATORS, PLACEMENT

FLOAT = {"shapes": "[[8, 8]]", "types": '["float"]'}
HALF = {"shapes": "[[8, 8]]", "types": '["c10::Half"]'}


def a_trace(**facts):
    hosts = [
        host("aten::linear", 0, 50, **FLOAT),
        host("aten::t", 2, 6, **FLOAT),
        host("aten::addmm", 10, 40, **HALF),
        host("cudaLaunchKernel", 20, 25, kind="runtime", correlation=1),
        host("aten::add", 60, 90, **FLOAT),
        host("autograd::engine::evaluate_function: MulBackward0", 100, 140, thread=1),
        host("aten::mul", 110, 130, thread=1, **FLOAT),
        host("cudaLaunchKernel", 112, 116, kind="runtime", correlation=2, thread=1),
        host("aten::add", 960, 990, **FLOAT),
    ]
    devices = [device("gemm", 30, 130, correlation=1), device("mul", 130, 150, correlation=2), device("lost", 200, 300, correlation=9)]
    return made_trace(hosts=hosts, devices=devices, **facts)


def by_name(found: pl.DataFrame) -> dict:
    return {row["name"]: row for row in found.iter_rows(named=True)}


def test_self_and_total_time_of_nested_operators():
    found = find_operators(a_trace(), steps((0, 500)))
    rows = by_name(found)

    assert found.schema == OPERATORS.schema
    assert (rows["aten::linear"]["host_total_ns"], rows["aten::linear"]["host_self_ns"]) == (50_000, 16_000)
    assert (rows["aten::linear"]["device_total_ns"], rows["aten::linear"]["device_self_ns"]) == (100_000, 0)
    assert (rows["aten::addmm"]["device_self_ns"], rows["aten::addmm"]["launches"]) == (100_000, 1)
    assert rows["aten::add"]["count"] == 1  # the other is outside the window
    assert sum(row["host_self_ns"] for row in rows.values()) == 50_000 + 30_000 + 40_000


def test_backward_and_place_are_known_by_what_stands_around_and_what_was_launched():
    rows = by_name(find_operators(a_trace(), steps((0, 500))))

    assert {name for name, row in rows.items() if row["backward"]} == {"aten::mul", "autograd::engine::evaluate_function: MulBackward0"}
    assert {name for name, row in rows.items() if row["on_host"]} == {"aten::add"}


def test_a_launch_whose_kernel_is_lost_is_no_work_on_the_host():
    hosts = [host("aten::mul", 0, 9), host("cudaLaunchKernel", 1, 3, kind="runtime", correlation=1)]
    rows = find_operators(made_trace(hosts=hosts, devices=[device("k", 50, 60)]), steps((0, 100)))
    assert rows["on_host"].to_list() == [False]


@pytest.mark.parametrize(("count", "on_host"), [(1, False), (9, True)])
def test_an_operator_is_on_the_host_where_most_of_its_time_is(count, on_host):
    """As where the records of some launches were lost."""
    hosts, devices = [], []
    for number in range(10):
        at = 100 * number
        hosts.append(host("aten::mul", at, at + 9))
        if number >= count:
            hosts.append(host("cudaLaunchKernel", at + 1, at + 3, kind="runtime", correlation=number))
            devices.append(device("k", at + 50, at + 60, correlation=number))
    hosts.append(host("cudaLaunchKernel", 1001, 1003, kind="runtime", correlation=10))
    rows = find_operators(made_trace(hosts=hosts, devices=devices), steps((0, 2000)))

    assert rows["on_host"].to_list() == [on_host]
    assert mostly_on_host(rows, "name")["name"].to_list() == ["aten::mul"] * on_host


@pytest.mark.parametrize("devices", [[], [device("k", 1, 2)]])
def test_without_a_device_or_without_calls_of_the_runtime_the_place_is_unknown(devices):
    rows = find_operators(made_trace(hosts=[host("aten::mm", 0, 10)], devices=devices), steps((0, 100)))
    assert rows["on_host"].to_list() == [None]


def test_operators_are_counted_by_shapes_and_line():
    hosts = [host("aten::mm", 0, 4, shapes="[[1]]"), host("aten::mm", 5, 9, shapes="[[2]]"), host("aten::mm", 10, 14, shapes="[[2]]")]
    hosts.append(host("aten::mm", 20, 24, shapes="[[2]]", stack="net.py(3): forward"))
    found = find_operators(made_trace(hosts=hosts), steps((0, 100))).sort("count", "where", nulls_last=True)
    assert found.select("shapes", "where", "count").rows() == [("[[2]]", "forward (net.py:3)", 1), ("[[1]]", None, 1), ("[[2]]", None, 2)]


def test_placement_divides_each_places_time_by_precision():
    found = find_placement(a_trace(), steps((0, 500)))

    assert found.schema == PLACEMENT.schema
    assert found.rows() == [
        ("device", "float16", 1, 100_000, pytest.approx(100 / 120)),
        ("device", "float32", 1, 20_000, pytest.approx(20 / 120)),
        ("host", "float32", 1, 30_000, 1.0),
    ]


def test_without_a_device_all_that_computes_is_on_the_host():
    hosts = [host("aten::linear", 0, 50), host("aten::addmm", 10, 40, types='["double"]'), host("aten::view", 60, 61)]
    found = find_placement(made_trace(hosts=hosts), steps((0, 100)))
    assert found.select("place", "precision", "operators", "ns").rows() == [("host", "float64", 1, 30_000), ("host", "unknown", 1, 20_000)]


@pytest.mark.parametrize(
    ("types", "precision"),
    [
        ('["float", "float"]', "float32"),
        ('["long int", "c10::Half"]', "float16"),
        ('["c10::BFloat16", "float"]', "bfloat16"),
        ('["c10::Float8_e4m3fn", "float"]', "float8"),
        ('["double"]', "float64"),
        ('["unsigned char"]', "int8"),
        ('["Scalar", "", "TensorList"]', None),
        ('["bf16[8,128]"]', "bfloat16"),
    ],
)
def test_the_precision_of_input_types(types, precision):
    assert precision_of(types) == precision


def test_of_several_layers_the_one_with_the_longest_call_is_named():
    hosts = []
    for number, length in enumerate((10, 30, 20)):
        at = 100 * number
        hosts += [host(f"nn.Module: Conv2d_{number}", at, at + 50, kind="python"), host("aten::convolution", at, at + length)]

    row = find_operators(made_trace(hosts=hosts), steps((0, 1000))).row(0, named=True)

    assert (row["name"], row["count"], row["module"]) == ("aten::convolution", 3, "Conv2d_1")
    assert find_operators(made_trace(hosts=hosts[1::2]), steps((0, 1000)))["module"].to_list() == [None]
