"""Rules about what the device's kernels are: each fires on what was made for it, stays silent close by, or says that it cannot judge."""

from __future__ import annotations

from typing import Any

import pytest

from made_measured_traces import EVERYTHING, made_measured
from made_parts import dry_part
from slowstep.analyses.device.tensor_cores import WhyNot
from slowstep.analyses.events.parts import FORWARD, INPUT_WAIT, KERNELS, LAUNCH, NOTHING_RECORDED, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import ALIGNED_SHAPES, FUSED_ELEMENTWISE, HALF_PRECISION, LARGER_BATCH, SINGLE_PRECISION
from slowstep.diagnosis.law import rules
from slowstep.diagnosis.rule import Answer, Judged
from slowstep.findings import Finding, NotJudged
from slowstep.parts import PieceKind
from slowstep.reasons import Reason

MISALIGNED = {"why_not": WhyNot.MISALIGNED, "multiple": 8, "sizes": '{"M": 4096, "K": 512, "N": 30522}'}
VECTOR = {"why_not": WhyNot.ONE_ROW, "multiple": None, "sizes": None}


def judge(rule: str, m: Measurements) -> Answer:
    return rules()[rule.replace("_", "-")].judge(m)


def finding(rule: str, m: Measurements) -> Finding:
    answer = judge(rule, m)
    assert isinstance(answer, Judged), answer
    assert answer.counterfactual is not None or answer.finding.gain.predicted is None
    return answer.finding


def reason(rule: str, m: Measurements) -> Reason:
    answer = judge(rule, m)
    assert isinstance(answer, NotJudged), answer
    assert answer.rule == rule.replace("_", "-")
    return answer.reason


def value(of: Finding, name: str) -> Any:
    return next(row.value for row in of.evidence if row.name == name)


def kernel(name: str, kind: str, ms: float, precision: str | None = "float32", **more: Any) -> dict[str, Any]:
    eligible = kind in ("matmul", "convolution")
    row = {"name": name, "class": kind, "total_ms": ms, "precision": precision, "tensor_core": False, "eligible": eligible}
    return row | {"operator": "aten::mm", "where": "f (train.py:12)"} | more


def sgemm(ms: float, **more: Any) -> dict[str, Any]:
    return kernel("ampere_sgemm_128x64_nn", "matmul", ms, **more)


def half(ms: float, **more: Any) -> dict[str, Any]:
    return kernel("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn", "matmul", ms, "bfloat16", **({"tensor_core": True} | more))


def busy(*kernels: dict[str, Any], idle_ms: float = 0.0, **more: Any) -> Measurements:
    """Ten steps of 100 ms; the kernels' times are of the whole window. What they leave is other kernels', but for `idle_ms` a step."""
    rest = 10 * (100.0 - idle_ms) - sum(row["total_ms"] for row in kernels)
    rows = [*kernels, kernel("other", "other", rest, "int64")] if rest > 0 else list(kernels)
    tables = {"kernels": rows} | more.pop("tables", {})
    return made_measured(ledger={LAUNCH: idle_ms} if idle_ms else None, tables=tables, **more)


KERNEL_RULES = ("full_precision_matmul", "tensor_core_misaligned_shapes", "unfused_elementwise", "small_batch")


@pytest.mark.parametrize("rule", KERNEL_RULES)
def test_a_trace_without_a_device_is_none_of_a_device_rules_business(rule):
    assert judge(rule, made_measured(has_device=False)) is None


@pytest.mark.parametrize("rule", [*KERNEL_RULES, "double_precision", "dominant_operation"])
def test_a_trace_that_left_the_devices_work_out_is_not_judged(rule):
    found = reason(rule, made_measured(has_device=False, facts={"vendor": "nvidia", "framework": "torch"}))

    assert found.code == "no-device-work"
    assert "ProfilerActivity.CUDA" in found.values["remedy"]


# full-precision-matmul


def test_float32_beside_the_tensor_cores_is_found_with_its_operator_and_its_gain():
    found = finding("full_precision_matmul", busy(sgemm(600.0), replay={HALF_PRECISION: (60.0, 50.0, 80.0)}))

    assert found.share == pytest.approx(0.6)
    assert found.claims == (piece(KERNELS, PieceKind.KERNELS, "matmul", "float32"),)
    assert found.gain.predicted == pytest.approx(100 / 60)
    assert value(found, "fix saves per step") == pytest.approx(40.0)
    assert "autocast('cuda', dtype=torch.bfloat16)" in found.fixes[0].text
    assert "set_float32_matmul_precision('high')" in found.fixes[1].text
    assert all(fix.changes_numerics for fix in found.fixes)


def test_the_share_is_of_the_window_and_not_of_the_kernels():
    found = finding("full_precision_matmul", busy(sgemm(300.0), idle_ms=40.0))

    assert found.share == pytest.approx(0.3)
    assert found.gain.predicted is None
    assert found.gain.unknown_because.code == "no-step-replayed"


def test_collectives_do_not_dilute_the_kernels_share():
    nccl = kernel("ncclDevKernel_AllReduce", "collective", 500.0, None)

    assert finding("full_precision_matmul", busy(sgemm(600.0), nccl, kernel("other", "other", 400.0, None))).share == pytest.approx(0.6)


def test_a_model_in_16_bit_with_few_products_left_in_float32_is_no_finding():
    assert judge("full_precision_matmul", busy(sgemm(29.0), half(800.0))) is None


def test_above_xprofs_mark_the_operator_that_fell_back_is_named():
    found = finding("full_precision_matmul", busy(sgemm(100.0, operator="aten::addmm", where="f (model.py:9)"), half(500.0)))

    assert found.title.startswith("aten::addmm in f (model.py:9) fell back to float32")
    assert "aten::addmm in f (model.py:9)" in found.fixes[0].text
    assert value(found, "kernels in 16 bit") == pytest.approx(0.5)


@pytest.mark.parametrize("tensor_core", [True, None])
def test_tf32_is_no_full_precision(tensor_core):
    assert judge("full_precision_matmul", busy(kernel("ampere_tf32_gemm", "matmul", 700.0, "tf32", tensor_core=tensor_core))) is None


def test_float32_on_a_device_without_tensor_cores_is_no_finding():
    assert judge("full_precision_matmul", busy(sgemm(700.0, eligible=False), compute_capability=6.0)) is None


def test_an_unknown_device_is_not_judged():
    assert reason("full_precision_matmul", busy(sgemm(700.0, eligible=None), compute_capability=None)).code == "device-unknown"


def test_an_unknown_precision_is_not_judged_and_the_remedy_is_the_shapes():
    m = busy(kernel("gemm", "matmul", 400.0, None, tensor_core=None), facts={"framework": "torch"})

    found = reason("full_precision_matmul", m)
    assert (found.code, found.values["remedy"]) == ("precision-not-named", "record with record_shapes=True")


def test_a_little_of_unknown_precision_is_no_reason_for_doubt():
    assert judge("full_precision_matmul", busy(kernel("gemm", "matmul", 20.0, None, tensor_core=None), half(700.0))) is None


def test_older_devices_are_told_of_float16_and_its_scaler():
    found = finding("full_precision_matmul", busy(sgemm(600.0), compute_capability=7.0, facts={"framework": "torch"}))

    assert len(found.fixes) == 1
    assert "torch.float16" in found.fixes[0].text
    assert "GradScaler" in found.fixes[0].text


# tensor-core-misaligned-shapes


def misaligned(ms: float, **more: Any) -> dict[str, Any]:
    shapes = {"shapes": "[[4096, 512], [512, 30522]]", "tensor_core": False, **MISALIGNED}
    return kernel("cutlass_gemm_f16", "matmul", ms, "float16", **(shapes | more))


def test_sizes_that_miss_the_tensor_cores_are_found_with_their_shapes():
    found = finding("tensor_core_misaligned_shapes", busy(misaligned(200.0), half(500.0), replay={ALIGNED_SHAPES: 85.0}))

    assert found.share == pytest.approx(0.2)
    assert "[[4096, 512], [512, 30522]] in f (train.py:12)" in found.title
    assert found.gain.predicted == pytest.approx(100 / 85)
    assert "multiples of 64" in found.fixes[0].text
    assert value(found, "of them, without Tensor Cores") == 1.0
    assert value(found, "sizes should be multiples of").endswith("8 (M 4096, K 512, N 30522)")


def test_kernels_that_read_less_than_16_bytes_at_once_are_found_by_their_name():
    narrow = half(200.0) | {"name": "cutlass_80_tensorop_bf16_s16816gemm_bf16_64x64_32x6_nn_align2"}

    found = finding("tensor_core_misaligned_shapes", busy(narrow, half(500.0), replay={ALIGNED_SHAPES: 100.0}))

    assert found.share == pytest.approx(0.2)
    assert found.gain.predicted is None
    assert found.gain.unknown_because.code == "full-rate-unknown"


@pytest.mark.parametrize(
    ("precision", "at_once", "fires"), [("tf32", 4, False), ("tf32", 2, True), ("float16", 4, True), ("float16", 8, False)]
)
def test_how_much_is_16_bytes_depends_on_the_precision(precision, at_once, fires):
    row = kernel(f"cutlass_80_tensorop_gemm_nn_align{at_once}", "matmul", 200.0, precision, tensor_core=True)

    assert isinstance(judge("tensor_core_misaligned_shapes", busy(row)), Judged) == fires


def test_beside_products_with_vectors_the_replays_gain_is_not_that_of_padding():
    vector = misaligned(300.0, **VECTOR)
    found = finding("tensor_core_misaligned_shapes", busy(misaligned(200.0), vector, replay={ALIGNED_SHAPES: 70.0}))

    assert found.gain.predicted is None
    assert found.gain.unknown_because.code == "not-told-apart"
    assert value(found, "fix saves per step") is None


def test_products_with_vectors_and_aligned_sizes_are_no_finding():
    vector = misaligned(300.0, **VECTOR)

    assert judge("tensor_core_misaligned_shapes", busy(vector, half(400.0))) is None


def test_a_little_misaligned_time_is_no_finding():
    assert judge("tensor_core_misaligned_shapes", busy(misaligned(29.0), half(600.0))) is None


def test_kernels_that_miss_the_tensor_cores_without_shapes_are_not_judged():
    m = busy(misaligned(300.0, **VECTOR | {"why_not": WhyNot.UNKNOWN}), recorded=EVERYTHING - {"shapes"}, facts={"framework": "torch"})

    found = reason("tensor_core_misaligned_shapes", m)
    assert (found.code, found.values["remedy"]) == ("shapes-not-traced", "record with record_shapes=True")


def test_convolutions_are_told_of_their_channels():
    found = finding("tensor_core_misaligned_shapes", busy(misaligned(200.0) | {"class": "convolution"}, facts={"framework": "torch"}))

    assert "channels_last" in found.fixes[0].text


# unfused-elementwise


def elementwise(ms: float, name: str = "vectorized_elementwise_kernel", count: int = 500, **more: Any) -> dict[str, Any]:
    return kernel(name, "elementwise", ms, **({"precision": "float16", "count": count, "operator": "aten::gelu"} | more))


def test_many_elementwise_kernels_are_found():
    found = finding("unfused_elementwise", busy(elementwise(300.0), replay={FUSED_ELEMENTWISE: 80.0}, facts={"framework": "torch"}))

    assert found.share == pytest.approx(0.3)
    assert value(found, "their number") == 50.0
    assert found.claims == (piece(KERNELS, PieceKind.KERNELS, "elementwise", "float16"),)
    assert "torch.compile" in found.fixes[0].text
    assert "aten::gelu" in found.fixes[0].text


def test_how_many_a_step_has_is_not_known_of_a_trace_without_steps():
    m = made_measured(steps=1, step_ms=1000.0, mark="window", tables={"kernels": [elementwise(300.0)]})

    assert reason("unfused_elementwise", m).code == "no-marks"


def test_under_a_tenth_of_the_time_they_are_no_finding():
    assert judge("unfused_elementwise", busy(elementwise(99.0), half(700.0))) is None


def test_few_long_ones_are_no_chain():
    assert judge("unfused_elementwise", busy(elementwise(300.0, count=100))) is None
    assert isinstance(judge("unfused_elementwise", busy(elementwise(300.0, count=101))), Judged)


@pytest.mark.parametrize("name", ["triton_poi_fused_add_gelu_3", "loop_add_fusion_12", "wrapped_add", "input_multiply_reduce_fusion"])
def test_what_a_compiler_fused_is_no_finding(name):
    assert judge("unfused_elementwise", busy(elementwise(600.0, name))) is None


# double-precision


def test_float64_kernels_are_found():
    rows = (kernel("dgemm", "matmul", 400.0, "float64"), elementwise(200.0, precision="float64"))
    found = finding("double_precision", busy(*rows, replay={SINGLE_PRECISION: 60.0}))

    assert found.share == pytest.approx(0.6)
    assert found.claims == (
        piece(KERNELS, PieceKind.KERNELS, "elementwise", "float64"),
        piece(KERNELS, PieceKind.KERNELS, "matmul", "float64"),
    )
    assert found.gain.predicted == pytest.approx(100 / 60)
    assert found.fixes[0].changes_numerics


def test_a_metric_in_float64_is_no_finding():
    assert judge("double_precision", busy(kernel("reduce_kernel<double>", "reduction", 29.0, "float64"), half(600.0))) is None


def test_operators_in_float64_are_found_on_the_host_where_there_is_no_device():
    placed = [{"place": "host", "precision": "float64", "operators": 10, "ns": 5, "share": 0.5}]
    m = made_measured(has_device=False, ledger={FORWARD: 60.0}, rest=INPUT_WAIT, tables={"placement": placed})

    found = finding("double_precision", m)

    assert found.share == pytest.approx(0.3)
    assert [claim.whole for claim in found.claims] == [FORWARD]
    assert found.gain.predicted is None


def test_without_types_the_hosts_precision_is_not_judged():
    placed = [{"place": "host", "precision": "unknown", "operators": 10, "ns": 5, "share": 1.0}]
    m = made_measured(has_device=False, rest=FORWARD, tables={"placement": placed})

    assert reason("double_precision", m).code == "precision-not-traced"


# dominant-operation


def operator(name: str, ms: float, **more: Any) -> dict[str, Any]:
    row = {"name": name, "shapes": "[[64, 512], [512, 512]]", "where": "f (model.py:31)", "host_total_ms": 1.0, "host_self_ms": 1.0}
    return row | {"device_total_ms": ms, "device_self_ms": ms} | more


@pytest.mark.parametrize(
    ("name", "beside", "is_attention"),
    [
        ("aten::_log_softmax", "aten::bmm", False),
        ("aten::_softmax", "aten::mm", False),
        ("aten::_softmax", "aten::bmm", True),
        ("aten::_flash_attention_forward", "aten::mm", True),
    ],
)
def test_a_faster_attention_is_advised_for_attention_only(name, beside, is_attention):
    found = finding("dominant_operation", made_measured(tables={"operators": [operator(name, 300.0), operator(beside, 50.0)]}))

    assert ("attention" in found.fixes[1].text) is is_attention


def test_a_dominant_operation_is_advice_with_its_line():
    found = finding("dominant_operation", made_measured(tables={"operators": [operator("aten::addmm", 50.0), operator("aten::mm", 251.0)]}))

    assert found.advisory
    assert found.claims == ()
    assert found.gain.predicted is None
    assert found.title == "aten::mm [[64, 512], [512, 512]] in f (model.py:31) holds 25 % of the time"
    assert found.names_cause


def test_an_operation_of_less_than_a_quarter_does_not_dominate():
    assert (
        judge("dominant_operation", made_measured(tables={"operators": [operator("aten::mm", 249.0), operator("aten::mm", 240.0)]})) is None
    )


def test_without_a_device_the_hosts_time_counts():
    rows = [operator("aten::convolution", 0.0, host_self_ms=400.0)]

    assert finding("dominant_operation", made_measured(has_device=False, tables={"operators": rows})).share == pytest.approx(0.4)


def test_where_a_trace_has_no_operators_the_kernels_stand_for_them():
    m = made_measured(recorded={"device"}, tables={"kernels": [kernel("loop_add_fusion", "elementwise", 600.0, operator=None, where=None)]})

    assert finding("dominant_operation", m).title == "loop_add_fusion holds 60 % of the time"


def test_a_host_that_was_not_recorded_is_not_judged():
    assert reason("dominant_operation", made_measured(has_device=False, recorded={"annotations"})).code == "no-operators"


@pytest.mark.parametrize("where", [None, "train.py"])
def test_a_kind_of_operations_without_shapes_and_functions_is_no_operation(where):
    rows = [operator("aten::convolution_backward", 600.0, shapes=None, where=where)]

    def remedy(lacks):
        m = made_measured(recorded=EVERYTHING - lacks, tables={"operators": rows}, facts={"framework": "pytorch"})
        found = reason("dominant_operation", m)
        assert found.code == "kind-only"
        return found.values["remedy"]

    assert remedy({"shapes", "stacks", "python"}) == "record with record_shapes=True and with_stack=True"
    # Python functions are there already: they cannot be what is missing.
    assert remedy({"shapes", "stacks"}) == "record with record_shapes=True"


@pytest.mark.parametrize("name", ["record_param_comms", "c10d::allreduce_", "nccl:all_reduce", "_c10d_functional::all_reduce"])
def test_what_only_sends_is_no_operation(name):
    assert judge("dominant_operation", made_measured(tables={"operators": [operator(name, 600.0)]})) is None


# kernels beside what the step waits for


@pytest.mark.parametrize(
    ("rule", "row", "scenario"),
    [
        ("full_precision_matmul", sgemm(600.0), HALF_PRECISION),
        ("tensor_core_misaligned_shapes", misaligned(600.0), ALIGNED_SHAPES),
        ("unfused_elementwise", elementwise(600.0), FUSED_ELEMENTWISE),
        ("double_precision", kernel("dgemm", "matmul", 600.0, "float64"), SINGLE_PRECISION),
    ],
)
def test_kernels_that_no_step_waits_for_are_no_finding(rule, row, scenario):
    assert judge(rule, busy(row, replay={scenario: 99.6})) is None
    assert finding(rule, busy(row, replay={scenario: 99.0})).gain.predicted == pytest.approx(100 / 99)


# small-batch


def launches(short: int | None, kernels: int = 1000) -> list[dict[str, Any]]:
    return [{"step": step, "kernels": kernels, "launches": kernels, "short_kernels": short} for step in range(10)]


def test_a_batch_that_is_too_small_is_found_and_folds_with_launch_bound():
    m = busy(idle_ms=60.0, tables={"launches": launches(800)}, replay={LARGER_BATCH: 55.0}, batch_size=8, batch_size_from="input shapes")

    found = finding("small_batch", m)

    assert found.share == pytest.approx(0.6)
    assert found.claims == (LAUNCH,)
    assert found.gain.predicted == pytest.approx(100 / 55)
    assert "batch size 16 instead of 8" in found.fixes[0].text
    assert found.fixes[0].changes_numerics
    assert value(found, "kernels shorter than their launch") == pytest.approx(0.8)


@pytest.mark.parametrize(("each_us", "share", "unknown"), [(9, 0.30, True), (9, 0.15, False), (30, 0.30, False)])
def test_on_a_cpu_many_short_operators_are_not_called_free_of_fixed_cost(each_us, share, unknown):
    ms = share * 10 * 100
    short = {"name": "aten::add", "count": int(1000 * ms / each_us), "host_total_ms": ms, "host_self_ms": ms}
    answer = judge("small_batch", made_measured(has_device=False, tables={"operators": [short]}))

    assert isinstance(answer, NotJudged) == unknown
    if unknown:
        assert (answer.reason.code, answer.reason.values["share"]) == ("short-operators", pytest.approx(share))


def test_gaps_of_less_than_half_of_the_step_are_launch_bounds_alone():
    assert judge("small_batch", busy(idle_ms=49.0, tables={"launches": launches(800)})) is None


def test_gaps_between_long_kernels_do_not_tell_of_a_small_batch():
    assert judge("small_batch", busy(idle_ms=60.0, tables={"launches": launches(499)})) is None


def test_without_runtime_calls_small_batches_are_not_judged():
    idle = [{"step": step, "part": NOTHING_RECORDED, "end_ms": 60.0} for step in range(10)]
    m = made_measured(ledger={NOTHING_RECORDED: 60.0}, recorded=EVERYTHING - {"runtime"}, tables={"gaps": idle})

    assert reason("small_batch", m).code == "no-runtime-calls"
    assert judge("small_batch", busy(recorded=EVERYTHING - {"runtime"})) is None


# claims


def test_a_claim_on_a_piece_leads_back_to_its_part():
    assert piece(KERNELS, PieceKind.KERNELS, "matmul", "float32").whole == KERNELS
    assert piece(dry_part("cudaFree", "f (train.py:3)"), PieceKind.LOSS_SCALING).whole == dry_part("cudaFree", "f (train.py:3)")
    assert KERNELS.whole == KERNELS
