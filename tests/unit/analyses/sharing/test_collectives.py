from __future__ import annotations

import pytest

from made_steps import steps
from made_traces import device, host, made_trace
from slowstep.analyses.device.allocations import find_allocations
from slowstep.analyses.events.tables import COLLECTIVES, MEMORY
from slowstep.analyses.sharing.collectives import find_collectives, input_bytes

STEPS = steps((0, 1000), (1000, 2000))


def test_exposed_and_overlapped_are_exact():
    devices = [
        device("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 200, stream=20, bytes=10**6, group_size=4),
        device("k", 50, 120, stream=7),
        device("k", 110, 130, stream=8),
        device("Memset", 190, 260, kind="memset"),
        device("Memcpy", 130, 190, kind="h2d"),
        device("k", 100, 200, device=1),
    ]
    found = find_collectives(made_trace(devices=devices), STEPS)
    row = found.row(0, named=True)

    assert found.schema == COLLECTIVES.schema
    assert (row["operation"], row["library"], row["total_ns"], row["exposed_ns"], row["overlapped_ns"]) == (
        "all_reduce",
        "nccl",
        100_000,
        60_000,
        40_000,
    )
    assert row["bus_gb_per_s"] == pytest.approx(10**6 / 100_000 * 2 * 3 / 4)


@pytest.mark.parametrize(
    ("operation", "factor"),
    [("AllReduce", 1.5), ("ReduceScatter", 0.75), ("AllGather", 3.0), ("Broadcast", 1.0), ("SendRecv", 1.0)],
)
def test_bus_bandwidth_by_the_definition_of_nccls_tests(operation, factor):
    # Of an all_gather the input of each of 4 ranks is a fourth of what is counted: 3/4 of 4 times as much.
    devices = [device(f"ncclKernel_{operation}_RING_LL", 0, 100, bytes=10**6, group_size=4)]
    assert find_collectives(made_trace(devices=devices), STEPS)["bus_gb_per_s"].to_list() == pytest.approx([10 * factor])


def test_without_bytes_or_ranks_the_bandwidth_is_unknown():
    devices = [device("ncclKernel_AllReduce_", 0, 100, bytes=10), device("ncclKernel_AllReduce_", 200, 300, group_size=4)]
    assert find_collectives(made_trace(devices=devices), STEPS)["bus_gb_per_s"].to_list() == [None, None]


def test_a_generic_kernel_is_what_the_range_around_its_launch_says():
    hosts = [
        host("nccl:all_to_all", 0, 50, kind="annotation", shapes="[[1024, 8]]", types='["c10::BFloat16"]'),
        host("hipExtLaunchKernel", 10, 20, kind="runtime", correlation=1),
        host("hipExtLaunchKernel", 60, 70, kind="runtime", correlation=2),
    ]
    devices = [device("ncclDevKernel_Generic(", 100, 200, correlation=1), device("ncclDevKernel_Generic(", 300, 400, correlation=2)]

    found = find_collectives(made_trace(hosts=hosts, devices=devices, vendor="amd"), STEPS)

    assert set(found.select("operation", "library", "bytes").rows()) == {("all_to_all", "rccl", 16384), ("other", "rccl", None)}


@pytest.mark.parametrize(
    ("name", "vendor", "told"),
    [
        ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*", "nvidia", ("all_to_all", "deepep")),
        ("void deep_ep::intranode::cached_notify_combine<8>(void**, int*", "nvidia", ("all_to_all", "deepep")),
        ("void deep_ep::intranode::barrier<8>(int**, int)", "nvidia", ("barrier", "deepep")),
        ("mscclKernel_Sum_hip_bfloat16_Simple_false", "amd", ("other", "rccl")),
    ],
)
def test_libraries_beside_nccl_are_known_by_their_kernels(name, vendor, told):
    found = find_collectives(made_trace(devices=[device(name, 100, 200)], vendor=vendor), STEPS)

    assert found.select("operation", "library").row(0) == told


def test_what_the_trace_says_of_the_operation_counts_most():
    devices = [device("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(", 0, 10, collective="_allgather_base")]
    assert find_collectives(made_trace(devices=devices), STEPS)["operation"].to_list() == ["all_gather"]


def test_gloo_works_on_the_host():
    hosts = [
        host("gloo:all_reduce", 100, 200, kind="annotation", thread=1, shapes="[[250]]", types='["float"]'),
        host("aten::mm", 90, 130),
        host("aten::mm", 150, 160, thread=1),
    ]
    row = find_collectives(made_trace(hosts=hosts), STEPS).row(0, named=True)
    assert (row["library"], row["operation"], row["bytes"], row["exposed_ns"], row["overlapped_ns"]) == (
        "gloo",
        "all_reduce",
        1000,
        70_000,
        30_000,
    )

    row = find_collectives(made_trace(hosts=hosts, devices=[device("k", 190, 300)]), STEPS).row(0, named=True)
    assert row["exposed_ns"] == 90_000


@pytest.mark.parametrize(
    ("shapes", "types", "size"),
    [
        ("[[4, 2], [3]]", '["float", "c10::Half"]', 38),
        ("[[4], []]", '["float", "Scalar"]', 16),
        ("[[4]]", '["what"]', None),
        ("[[], []]", '["", ""]', None),
        (None, '["float"]', None),
        ("[[[4]]]", '["TensorList"]', None),
        ("broken", '["float"]', None),
    ],
)
def test_bytes_of_inputs(shapes, types, size):
    assert input_bytes(shapes, types) == size


def test_memory_by_step_and_device():
    allocations = [
        {"time": 10, "device": 0, "bytes": 100, "allocated_bytes": 500, "reserved_bytes": 900},
        {"time": 20, "device": 0, "bytes": -100, "allocated_bytes": 400, "reserved_bytes": 950},
        {"time": 30, "device": -1, "bytes": 7, "allocated_bytes": 7},
        {"time": 1500, "device": 0, "bytes": 1, "allocated_bytes": 401, "reserved_bytes": 950},
        {"time": 5000, "device": 0, "bytes": 1, "allocated_bytes": 9999, "reserved_bytes": 9999},
    ]
    hosts = [
        host("cudaMalloc", 40, 50, kind="runtime"),
        host("cudaFree_v3020", 60, 65, kind="runtime"),
        host("cudaMallocHost", 70, 71, kind="runtime"),
        host("cudaLaunchKernel", 80, 81, kind="runtime"),
    ]

    found = find_allocations(made_trace(hosts=hosts, devices=[device("k", 0, 1)], allocations=allocations), STEPS)

    assert found.schema == MEMORY.schema
    assert found.rows() == [(0, -1, 7, None, 0, 0), (0, 0, 500, 950, 3, 16_000), (1, 0, 401, 950, 0, 0)]
    assert find_allocations(made_trace(), STEPS).equals(MEMORY.empty())
    alone = find_allocations(made_trace(hosts=hosts), STEPS)
    assert alone.rows() == [(0, 0, None, None, 3, 16_000)]
