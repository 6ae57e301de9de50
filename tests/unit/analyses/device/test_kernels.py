from __future__ import annotations

import json

import pytest

from made_steps import steps
from made_traces import device, host, made_trace, table
from slowstep.analyses.device.kernels import find_kernels
from slowstep.analyses.device.tensor_cores import (
    Missed,
    WhyNot,
    has_tensor_cores,
    sizes_of,
    why_not,
)
from slowstep.analyses.events.tables import KERNELS
from slowstep.timeline.timeline import Timeline

SGEMM = "ampere_sgemm_128x64_nn"
HALF = "ampere_fp16_s16816gemm_fp16_128x64_ldg8"
ADD = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>"


def launched(kernel: str, at: float, ns: float, number: int, operator: str, **more) -> tuple[list, list]:
    """A kernel, its launch 2 us long, and the operator around that."""
    hosts = [host(operator, at, at + 6, **more), host("cudaLaunchKernel", at + 1, at + 3, kind="runtime", correlation=number)]
    return hosts, [device(kernel, at + 10, at + 10 + ns, correlation=number, occupancy=0.5)]


def a_trace(*parts: tuple[list, list], **facts) -> Timeline:
    return made_trace(hosts=[row for hosts, _ in parts for row in hosts], devices=[row for _, rows in parts for row in rows], **facts)


def test_kernels_are_summed_by_name_with_operator_shapes_and_delay():
    floats = {"shapes": "[[64, 256], [256, 512]]", "types": '["float", "float"]'}
    other = {"shapes": "[[8, 8], [8, 8]]", "types": '["float", "float"]'}
    parts = [launched(SGEMM, 0, 4, 1, "aten::mm", **floats), launched(SGEMM, 100, 8, 2, "aten::mm", **floats)]
    parts += [launched(SGEMM, 200, 1, 3, "aten::bmm", **other), launched(ADD, 300, 7, 4, "aten::add", **floats)]
    parts += [launched(ADD, 990, 7, 5, "aten::add", **floats)]

    found = find_kernels(a_trace(*parts), steps((0, 500)))

    assert found.schema == KERNELS.schema
    assert found["name"].to_list() == [SGEMM, ADD]
    first = found.row(0, named=True)
    assert (first["count"], first["total_ns"], first["median_ns"]) == (3, 13_000, 4000)
    assert (first["operator"], first["shapes"]) == ("aten::mm", "[[64, 256], [256, 512]]")
    assert (first["class"], first["precision"], first["tensor_core"], first["eligible"]) == ("matmul", "float32", False, True)
    assert first["why_not"] == WhyNot.FULL_PRECISION
    assert first["launch_delay_ns"] == 7000
    assert first["occupancy"] == 0.5
    assert first["share"] == pytest.approx(13 / 20)
    assert found.row(1, named=True)["why_not"] is None
    assert found.row(1, named=True)["eligible"] is False


def test_precision_comes_from_the_operator_where_the_name_does_not_tell():
    halves = {"shapes": "[[64, 100], [100, 512]]", "types": '["c10::BFloat16", "c10::BFloat16"]'}
    found = find_kernels(a_trace(launched("gemm_kernel_of_mine", 0, 4, 1, "aten::mm", **halves)), steps((0, 100)))
    assert found["precision"].to_list() == ["bfloat16"]
    # Neither used nor unused: a name that does not tell gets no reason.
    assert found["tensor_core"].to_list() == [None]
    assert found["why_not"].to_list() == [None]


def test_float32_on_tensor_cores_is_tf32_on_nvidia_and_float32_on_amd():
    floats = {"shapes": "[[64, 64], [64, 64]]", "types": '["float", "float"]'}
    trace = a_trace(launched("my_wmma_gemm", 0, 4, 1, "aten::mm", **floats))
    assert find_kernels(trace, steps((0, 100)))["precision"].to_list() == ["tf32"]
    amd = a_trace(launched("my_wmma_gemm", 0, 4, 1, "aten::mm", **floats), vendor="amd")
    assert find_kernels(amd, steps((0, 100)))["precision"].to_list() == ["float32"]


def test_a_kernel_of_a_graph_has_no_launch_delay_and_one_without_launch_no_operator():
    trace = made_trace(
        hosts=[host("cudaGraphLaunch", 0, 5, kind="runtime", correlation=1)],
        devices=[device(ADD, 50, 60, correlation=1, from_graph=True), device(SGEMM, 60, 70, correlation=9)],
    )

    found = find_kernels(trace, steps((0, 100)))

    assert found["launch_delay_ns"].to_list() == [None, None]
    assert found["operator"].to_list() == [None, None]


def test_a_kernel_that_begins_before_its_launch_returns_was_not_delayed():
    hosts = [host("cudaLaunchKernel", 0, 50, kind="runtime", correlation=1)]
    found = find_kernels(made_trace(hosts=hosts, devices=[device(ADD, 40, 60, correlation=1)]), steps((0, 100)))
    assert found["launch_delay_ns"].to_list() == [0]


def test_a_device_without_tensor_cores_makes_no_kernel_eligible():
    trace = a_trace(launched(SGEMM, 0, 4, 1, "aten::mm"))
    tables = {**trace.tables, "trace_devices": table("trace_devices", [{"device": 0, "name": "Tesla P100", "compute_capability": 6.0}])}
    old = Timeline(source="made", tables=tables, processes=(), run=trace.run, health=(), trace=trace.trace)
    assert find_kernels(old, steps((0, 100)))["eligible"].to_list() == [False]


def test_no_kernels_is_an_empty_table():
    assert find_kernels(made_trace(), steps((0, 100))).equals(KERNELS.empty())


@pytest.mark.parametrize(
    ("vendor", "name", "capability", "seen", "answer"),
    [
        ("nvidia", "Tesla V100", 7.0, False, True),
        ("nvidia", "GeForce GTX 1080", 6.1, False, False),
        ("nvidia", "NVIDIA GeForce GTX 1660 Ti", 7.5, False, False),
        ("nvidia", "Tesla T4", 7.5, False, True),
        ("nvidia", None, None, False, None),
        ("nvidia", None, None, True, True),
        ("amd", "AMD Instinct MI300X", 9.4, False, True),
        ("amd", "AMD Radeon Graphics", 9.0, False, None),
    ],
)
def test_devices_with_tensor_cores(vendor, name, capability, seen, answer):
    assert has_tensor_cores(vendor, name, capability, seen) is answer


@pytest.mark.parametrize(
    ("operator", "shapes", "sizes"),
    [
        ("aten::mm", [[64, 100], [100, 512]], {"M": 64, "K": 100, "N": 512}),
        ("aten::addmm", [[512], [64, 100], [100, 512], [], []], {"M": 64, "K": 100, "N": 512}),
        ("aten::bmm", [[8, 64, 100], [8, 100, 512]], {"M": 64, "K": 100, "N": 512}),
        ("aten::linear", [[4, 16, 100], [512, 100], [512]], {"M": 64, "K": 100, "N": 512}),
        ("aten::conv2d", [[2, 3, 8, 8], [64, 3, 7, 7], []], {"in": 3, "out": 64}),
        ("aten::convolution_backward", [[2, 64, 8, 8], [2, 3, 8, 8], [64, 3, 7, 7]], {"in": 3, "out": 64}),
        ("aten::add", [[2, 2], [2, 2]], None),
        ("aten::mm", [[64, 100]], None),
    ],
)
def test_sizes_of_an_operator(operator, shapes, sizes):
    assert sizes_of(operator, json.dumps(shapes)) == sizes


@pytest.mark.parametrize(
    ("operator", "shapes", "precision", "capability", "reason"),
    [
        ("aten::mm", [[64, 100], [100, 512]], "float32", 8.0, Missed(WhyNot.FULL_PRECISION)),
        ("aten::mm", [[64, 100], [100, 512]], "float32", 7.0, Missed(WhyNot.NO_TF32)),
        ("aten::mm", [[64, 100], [100, 512]], "float64", 8.0, Missed(WhyNot.DOUBLE)),
        ("aten::mm", [[1, 100], [100, 512]], "float16", 8.0, Missed(WhyNot.ONE_ROW)),
        ("aten::mv", None, "float16", 8.0, Missed(WhyNot.ONE_ROW)),
        ("aten::mm", [[64, 100], [100, 512]], "float16", 8.0, Missed(WhyNot.MISALIGNED, 8, {"M": 64, "K": 100, "N": 512})),
        ("aten::mm", [[64, 104], [104, 512]], "float16", 8.0, Missed(WhyNot.UNKNOWN)),
        ("aten::mm", [[64, 102], [102, 512]], "tf32", 8.0, Missed(WhyNot.MISALIGNED, 4, {"M": 64, "K": 102, "N": 512})),
        ("aten::mm", [[64, 104], [104, 512]], "int8", 8.0, Missed(WhyNot.MISALIGNED, 16, {"M": 64, "K": 104, "N": 512})),
        ("aten::mm", None, "float16", 8.0, Missed(WhyNot.UNKNOWN)),
    ],
)
def test_why_tensor_cores_are_not_used(operator, shapes, precision, capability, reason):
    assert why_not(operator, None if shapes is None else json.dumps(shapes), precision, capability, "nvidia") == reason
