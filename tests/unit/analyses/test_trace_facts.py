"""What a trace covers, what is doubtful in it, whether it is of a training, and its batch size."""

from __future__ import annotations

import polars as pl
import pytest

from kineto_files import case, read
from made_traces import device, host, made_trace, step
from slowstep.analyses.completeness import find_completeness, find_trace_doubts
from slowstep.analyses.events.training_thread import training_thread
from slowstep.analyses.input.loader_requests import find_requests
from slowstep.analyses.ledger.trace_ledger import build_trace_ledger
from slowstep.analyses.steps.trace_steps import find_trace_steps
from slowstep.analyses.steps.traced_training import batch_size, is_training
from slowstep.timeline.timeline import Timeline


def test_coverage_counts_both_ways() -> None:
    hosts = [host("cudaLaunchKernel", at, at + 5, "runtime", correlation=n) for n, at in enumerate((10, 20, 30, 40))]
    hosts.append(host("cudaGraphLaunch_v10000", 50, 55, "runtime", correlation=9))
    hosts.append(host("cudaEventRecord", 60, 61, "runtime", correlation=10))
    devices = [device("k", 100 + n, 101 + n, correlation=n) for n in (0, 1, 2)]
    devices += [device("k", 110 + n, 111 + n, correlation=9, from_graph=True) for n in range(2)]
    devices += [device("k", 120, 121), device("Memset", 130, 140, "memset", stream=8)]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(1, 10, 75)])
    found = find_completeness(trace, find_trace_steps(trace)[0])
    assert (found.kernels, found.devices, found.streams) == (6, 1, 2)
    assert found.kernels_with_launch == pytest.approx(5 / 6)
    assert (found.launches, found.launches_with_kernel) == (5, pytest.approx(4 / 5))


def test_time_inside_steps_is_that_of_the_device() -> None:
    hosts = [host("cudaLaunchKernel", 10, 15, "runtime", correlation=1)]
    devices = [device("k", 100, 112, correlation=1), device("k", 120, 140)]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(1, 10, 75)])
    assert find_completeness(trace, find_trace_steps(trace)[0]).inside_steps == pytest.approx(102 / 130)


def test_coverage_of_nothing_is_unknown() -> None:
    trace = made_trace()
    found = find_completeness(trace, find_trace_steps(trace)[0])
    assert (found.kernels, found.kernels_with_launch, found.launches, found.launches_with_kernel) == (0, None, 0, None)
    assert found.inside_steps is None


def test_clocks_that_differ_overlapping_kernels_and_other_devices_are_counted() -> None:
    hosts = [host("cudaLaunchKernel", 10, 15, "runtime", correlation=1)]
    devices = [device("k", 5, 30, correlation=1), device("k", 20, 40), device("k", 1, 2, device=1)]
    trace = made_trace(hosts=hosts, devices=devices)
    assert {row.name: row.count for row in find_trace_doubts(trace)} == {
        "device-work-before-its-launch": 1,
        "kernels-overlap-on-a-stream": 1,
        "other-devices-left-out": 1,
    }
    ledger, _ = build_trace_ledger(trace, find_trace_steps(trace)[0])
    # From the first work of the device that is judged.
    assert ledger.whole == 35_000


def test_a_sound_trace_has_no_doubts() -> None:
    hosts = [host("cudaLaunchKernel", 10, 15, "runtime", correlation=1)]
    devices = [device("k", 12, 30, correlation=1), device("k", 30, 31, correlation=1), device("k", 20, 25, stream=9)]
    assert find_trace_doubts(made_trace(hosts=hosts, devices=devices)) == ()


def test_only_device_work_that_no_step_launched_or_holds_comes_after_the_last_step() -> None:
    hosts = [host("cudaLaunchKernel", at, at + 5, "runtime", correlation=at) for at in (10, 20, 110, 120, 210)]
    # The host is a step ahead of the device; one kernel is launched after the last mark.
    devices = [device("k", 15 + 100 * n, 115 + 100 * n, correlation=at) for n, at in enumerate((10, 20, 110, 120, 210))]
    steps = [step(1, 0, 100), step(2, 100, 200)]

    ahead = made_trace(hosts=hosts[:-1], devices=devices[:-1], steps=steps)
    more = made_trace(hosts=hosts, devices=devices, steps=steps)

    assert find_trace_doubts(ahead) == ()
    assert [(row.name, row.severity, row.count) for row in find_trace_doubts(more)] == [("kernels-after-the-last-step", "info", 1)]


@pytest.mark.parametrize(
    "trace",
    [
        made_trace(hosts=[host("autograd::engine::evaluate_function: MmBackward0", 0, 5)]),
        made_trace(hosts=[host("Optimizer.step#AdamW.step", 0, 5, "annotation")]),
        made_trace(hosts=[host("jit(train)/transpose(jvp(Dense))/dot_general", 0, 5, "annotation")]),
        made_trace(devices=[device("sm80_xmma_wgrad_implicit_gemm_indexed", 0, 5)]),
        made_trace(devices=[device("void flash_bwd_dq_dk_dv_loop_kernel", 0, 5)]),
        made_trace(devices=[device("igemm_bwd_gtcx3_nhwc_bf16", 0, 5), device("igemm_wrw_gtcx3_nhwc_bf16", 5, 9)]),
        made_trace(devices=[device("void cudnn::bn_bw_1C11_singleread<float, 512, true, 1, 2, 0>", 0, 5)]),
        made_trace(hosts=[host("CompiledFunctionBackward", 0, 5)]),
        made_trace(hosts=[host("gradients/conv2d_grad/Conv2DBackpropInput:Conv2DBackpropInput", 0, 5)]),
        made_trace(hosts=[host("model/conv2d/Conv2DBackpropFilter:Conv2DBackpropFilter", 0, 5)]),
    ],
)
def test_backward_or_update_is_training(trace: Timeline) -> None:
    assert is_training(trace)


@pytest.mark.parametrize(
    "kernel",
    [
        "sm80_xmma_dgrad_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_kernel_cudnn",
        "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x256_32x4_nhwc_align4>",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>",
        "igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32",
        "naive_conv_bwd_nchw_half_double_half",
        "void ck::tensor_operation::device::kernel_grouped_conv_bwd_data_multiple_d_xdl_cshuffle<>",
        "__cudnn$convBackwardInput",
    ],
)
def test_the_forward_of_a_transposed_convolution_is_no_training(kernel: str) -> None:
    hosts = [host("aten::conv_transpose2d", 0, 5), host("aten::cudnn_convolution_transpose", 0, 5)]
    assert not is_training(made_trace(hosts=hosts, devices=[device(kernel, 3, 5)]))
    assert not is_training(made_trace(devices=[device(kernel, 3, 5)]))
    assert is_training(made_trace(hosts=[*hosts, host("ConvolutionBackward0", 6, 9)], devices=[device(kernel, 3, 5)]))


def test_tensorflows_forward_of_a_transposed_convolution_is_no_training() -> None:
    assert not is_training(made_trace(hosts=[host("model/conv2d_transpose/conv2d_transpose:Conv2DBackpropInput", 0, 5)]))


@pytest.mark.parametrize("name", ["a100_2022_schema", "a100_collectives", "mi250_toy_step", "mi300_python_frames"])
def test_a_real_training_is_known_by_its_kernels_alone(name: str) -> None:
    kernels = read(case(name)).rows("device_events", "name", kinds=["kernel"])["name"].unique().cast(pl.String)

    assert is_training(made_trace(devices=[device(kernel, at, at + 1) for at, kernel in enumerate(kernels)]))


def test_forward_alone_is_no_training() -> None:
    hosts = [host("aten::conv2d", 0, 5), host("aten::addmm", 5, 9), host("backward_hook.py(3): f", 0, 5, "python")]
    assert not is_training(made_trace(hosts=hosts, devices=[device("ampere_sgemm_128x64_tn", 3, 5)]))


def test_the_training_thread_is_not_autograds_though_that_launches_more() -> None:
    hosts = [host("cudaLaunchKernel", at, at + 1, "runtime", correlation=at) for at in range(5)]
    hosts += [host("cudaLaunchKernel", at, at + 1, "runtime", correlation=at, thread=1) for at in range(20, 40)]
    hosts += [host("autograd::engine::evaluate_function: MmBackward0", 20, 40, thread=1)]
    assert training_thread(made_trace(hosts=hosts)) == 0


def conv(at: float, batch: int) -> dict[str, object]:
    return host("aten::conv2d", at, at + 5, shapes=f"[[{batch}, 3, 8, 8], [4, 3, 3, 3], [4], []]")


def linear(at: float, rows: int) -> dict[str, object]:
    return host("aten::linear", at, at + 5, shapes=f"[[{rows}, 64], [64, 64], [64]]")


def size_of(*hosts: dict[str, object]) -> int | None:
    trace = made_trace(hosts=hosts, steps=[step(1, 0, 100), step(2, 100, 200)])
    return batch_size(trace, find_trace_steps(trace)[0])


def test_the_leading_dimension_of_what_layers_take_is_the_batch() -> None:
    assert size_of(conv(0, 10), conv(10, 10), conv(100, 10)) == 10


def test_a_batch_that_changes_is_unknown() -> None:
    assert size_of(conv(0, 10), conv(100, 7)) is None


def test_positions_are_no_samples() -> None:
    tokens = "[[50000, 64], [8, 1024], [], [], []]"
    positions = "[[1024, 64], [1024], [], [], []]"
    hosts = [host("aten::embedding", at, at + 5, shapes=shapes) for at in (0, 100) for shapes in (tokens, positions)]
    assert size_of(*hosts, linear(10, 8192), linear(110, 8192)) == 8


def test_rows_are_samples_only_with_an_input_of_as_many() -> None:
    moved = [host("aten::to", at, at + 5, shapes="[[32, 64], [], []]") for at in (0, 100)]
    assert size_of(linear(10, 32), linear(110, 32)) is None
    assert size_of(*moved, linear(10, 32), linear(110, 32)) == 32


def test_rows_that_are_cast_between_layers_may_be_positions() -> None:
    hosts = []
    for at in (0, 100):
        hosts += [
            host("aten::to", at, at + 1, shapes="[[888], []]"),
            host("aten::embedding", at + 2, at + 5, shapes="[[25136, 64], [888], [], [], []]"),
            host("aten::to", at + 6, at + 8, shapes="[[888, 64], [], []]"),
            linear(at + 10, 888),
            host("aten::to", at + 20, at + 25, shapes="[[888, 128], [], []]"),
            linear(at + 30, 888),
        ]
    assert size_of(*hosts) is None


def test_without_shapes_the_batch_is_unknown() -> None:
    assert size_of(host("aten::conv2d", 0, 5), host("aten::conv2d", 100, 105, shapes="garbage")) is None


def test_a_request_is_exposed_as_far_as_the_device_stood_still() -> None:
    launches = [host("cudaLaunchKernel", at, at + 5, "runtime", correlation=n) for n, at in enumerate((0, 150))]
    hosts = [*launches, host("enumerate(DataLoader)#_Iter.__next__", 50, 140, "annotation")]
    devices = [device("k", 5, 100, correlation=0), device("k", 160, 200, correlation=1)]
    trace = made_trace(hosts=hosts, devices=devices, steps=[step(1, 0, 200)])
    steps, _ = find_trace_steps(trace)
    _, gaps = build_trace_ledger(trace, steps)
    assert find_requests(trace, steps, gaps).select("step", "start_ns", "exposed_ns").rows() == [(0, 50_000, 40_000)]
