from __future__ import annotations

import pytest

from made_measured_traces import measured_table
from made_parts import charged_parts, dry_part
from made_traces import device, host, made_trace
from slowstep.analyses.device.compilations import compiling, find_compilations
from slowstep.analyses.events.parts import LAUNCH
from slowstep.analyses.events.tables import COMPILATIONS, GAPS, STEPS

COMPILES = "_compile.compile_inner (dynamo_timed)"


def steps(*bounds):
    return measured_table("steps", [{"step": n, "number": n, "start_us": low, "end_us": high} for n, (low, high) in enumerate(bounds)])


def gaps(*rows):
    return measured_table("gaps", [{"step": 0, "part": part, "start_us": low, "end_us": high} for low, high, part in rows])


def test_of_ranges_inside_each_other_the_outermost_counts():
    timeline = made_trace(
        hosts=[
            host("dynamo", 0, 100),
            host("entire_frame_compile", 5, 95),
            host(COMPILES, 6, 94),
            host("backend_compile", 10, 60),
            host("Torch-Compiled Region: 0/0", 110, 150),
            host("TorchDynamo Cache Lookup", 105, 109),
            host(COMPILES, 200, 250, thread=1),
        ]
    )

    found = compiling(timeline)

    assert found.select("thread", "start_ns", "end_ns", "name").rows() == [
        (0, 5_000, 95_000, "entire_frame_compile"),
        (1, 200_000, 250_000, COMPILES),
    ]


@pytest.mark.parametrize(
    ("name", "kind", "counts"),
    [
        ("create_aot_dispatcher_function (dynamo_timed)", "operator", True),
        ("entire_backward_compile", "annotation", True),
        ("torch/_dynamo/convert_frame.py(1209): _compile", "python", True),
        ("triton/compiler/compiler.py(226): compile", "python", True),
        ("triton/compiler/compiler.py(481): run", "python", False),
        ("torch/_dynamo/eval_frame.py(1039): _fn", "python", False),
        ("$compiler.py:290 backend_compile", "python", True),
        ("cuModuleLoadData", "runtime", True),
        ("cuModuleLoadDataEx", "driver", True),
        ("cudaLaunchKernel", "runtime", False),
        ("aten::mm", "operator", False),
        ("entire_frame_compile_data: fn_name=_compile.compile_inner, compile_id=0/1", "annotation", False),
    ],
)
def test_what_compiles_is_known_by_its_name(name, kind, counts):
    assert compiling(made_trace(hosts=[host(name, 0, 10, kind)])).height == counts


def test_it_costs_what_the_device_lacks_meanwhile_and_is_cut_at_the_steps():
    timeline = made_trace(hosts=[host(COMPILES, 50, 250)], devices=[device("k", 0, 60), device("k", 240, 300)])

    found = find_compilations(timeline, steps((0, 100), (100, 200)), gaps((60, 100, LAUNCH), (100, 240, LAUNCH)))

    assert found.schema == COMPILATIONS.schema
    assert [
        (*row, part)
        for row, part in zip(found.select("step", "start_ns", "end_ns", "exposed_ns").rows(), charged_parts(found), strict=True)
    ] == [
        (0, 50_000, 100_000, 40_000, LAUNCH),
        (1, 100_000, 200_000, 100_000, LAUNCH),
    ]


def test_of_several_parts_the_one_with_most_of_it_is_named():
    timeline = made_trace(hosts=[host(COMPILES, 0, 100)], devices=[device("k", 100, 110)])

    found = find_compilations(timeline, steps((0, 110)), gaps((0, 30, LAUNCH), (30, 100, dry_part("cudaFree"))))

    assert found["exposed_ns"].to_list() == [100_000]
    assert charged_parts(found) == [dry_part("cudaFree")]


def test_without_a_device_all_of_it_counts():
    found = find_compilations(made_trace(hosts=[host(COMPILES, 10, 90)]), steps((0, 100)), GAPS.empty())

    assert (found["exposed_ns"].to_list(), charged_parts(found)) == ([80_000], [None])


def test_compiling_outside_the_window_is_left_out():
    timeline = made_trace(hosts=[host(COMPILES, 10, 90), host(COMPILES, 310, 390)])

    assert find_compilations(timeline, steps((100, 300)), GAPS.empty()).is_empty()
    assert find_compilations(timeline, STEPS.empty(), GAPS.empty()).schema == COMPILATIONS.schema


def test_the_line_that_called_what_is_compiled_is_told():
    stack = "train.py(8): step;train.py(20): <module>"
    found = find_compilations(made_trace(hosts=[host(COMPILES, 10, 90, stack=stack)]), steps((0, 100)), GAPS.empty())

    assert found["where"].to_list() == ["step (train.py:8)"]
