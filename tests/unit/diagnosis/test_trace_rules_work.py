"""Rules about what hosts, allocators, compilers and collectives do to a step: each fires, stays silent close by, or cannot judge."""

from __future__ import annotations

from typing import Any

import pytest

from made_measured_traces import EVERYTHING, made_measured
from made_parts import dry_part
from slowstep.analyses.events.parts import COLLECTIVES, FORWARD, LAUNCH, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import (
    COLLECTIVES_MERGED,
    COMMUNICATION_OVERLAPPED,
    HOST_OPERATIONS_ON_DEVICE,
    NO_ALLOCATOR_CALLS,
    NO_COMPILATION,
    NO_LOSS_SCALING,
)
from slowstep.diagnosis.engine import rules
from slowstep.diagnosis.rule import CLAIM, Answer, Judged
from slowstep.findings import Finding, NotJudged
from slowstep.parts import PieceKind
from slowstep.reasons import Reason

SYNC = dry_part("cudaStreamSynchronize", "f (train.py:55)")
FREE = dry_part("cudaFree")
TORCH = {"framework": "torch"}


def judge(rule: str, m: Measurements) -> Answer:
    return rules()[rule].judge(m)


def finding(rule: str, m: Measurements) -> Finding:
    answer = judge(rule, m)
    assert isinstance(answer, Judged), answer
    assert answer.counterfactual is not None or answer.finding.gain.predicted is None
    return answer.finding


def reason(rule: str, m: Measurements) -> Reason:
    answer = judge(rule, m)
    assert isinstance(answer, NotJudged), answer
    assert answer.rule == rule
    return answer.reason


def value(of: Finding, name: str) -> Any:
    return next(row.value for row in of.evidence if row.name == name)


def gaps(ms: float, steps: int = 10, **more: Any) -> list[dict[str, Any]]:
    """One gap of a length in each of the first steps."""
    row = {"stage": "compute", "part": LAUNCH, "start_ns": 0, "end_ms": ms}
    return [row | {"step": step} | more for step in range(steps)]


DEVICE_RULES = ("operation-on-host", "loss-scaling-gaps", "allocator-churn")


@pytest.mark.parametrize("rule", DEVICE_RULES)
def test_a_trace_without_a_device_is_none_of_a_device_rules_business(rule):
    assert judge(rule, made_measured(has_device=False)) is None


@pytest.mark.parametrize("rule", [*DEVICE_RULES, "recompilation", "exposed-communication", "small-collectives"])
def test_a_trace_that_left_the_devices_work_out_is_not_judged(rule):
    found = reason(rule, made_measured(has_device=False, facts={"vendor": "nvidia"} | TORCH))

    assert found.code == "no-device-work"
    assert "ProfilerActivity.CUDA" in found.values["remedy"]


@pytest.mark.parametrize("rule", [*DEVICE_RULES, "recompilation", "exposed-communication", "small-collectives"])
def test_a_healthy_training_is_no_finding(rule):
    on_device = {"name": "aten::mm", "host_total_ms": 1.0, "host_self_ms": 1.0, "on_host": False}

    assert judge(rule, made_measured(tables={"operators": [on_device]})) is None


# operation-on-host


def on_host(idle_ms: float, *, launch_ms: float | None = None, where: str | None = "f (train.py:41)", **more: Any) -> Measurements:
    """Steps of 100 ms with a gap in `aten::unique` on the host, and one in `aten::add`, which the device computes."""
    operators = [
        {"name": "aten::unique", "where": where, "host_total_ms": 50.0, "host_self_ms": 50.0, "on_host": True},
        {"name": "aten::add", "where": "f (train.py:42)", "host_total_ms": 5.0, "host_self_ms": 5.0, "on_host": False},
    ]
    found = gaps(idle_ms, operator="aten::unique", where=where) + gaps(9.0, operator="aten::add", where="f (train.py:42)")
    tables = {
        "operators": operators,
        "gaps": found,
        "placement": [{"place": "host", "precision": "float32", "operators": 5, "ns": 1, "share": 1.0}],
    }
    return made_measured(ledger={LAUNCH: (idle_ms + 9.0) if launch_ms is None else launch_ms}, tables=tables, **more)


def test_an_operator_on_the_host_is_found_with_its_line():
    found = finding("operation-on-host", on_host(20.0, replay={HOST_OPERATIONS_ON_DEVICE: 82.0}, facts=TORCH))

    assert found.share == pytest.approx(0.2)
    assert "aten::unique in f (train.py:41)" in found.title
    assert found.claims == (LAUNCH,)
    assert found.gain.predicted == pytest.approx(100 / 82)
    assert "device='cuda'" in found.fixes[0].text
    assert found.names_cause


def test_of_much_idle_time_it_claims_its_piece_only():
    assert finding("operation-on-host", on_host(20.0, launch_ms=60.0)).claims == (piece(LAUNCH, PieceKind.HOST_OPERATIONS),)


def test_host_time_of_less_than_five_percent_may_be_the_profilers():
    assert judge("operation-on-host", on_host(4.9)) is None
    assert isinstance(judge("operation-on-host", on_host(5.1)), Judged)


def test_an_operator_that_mostly_runs_on_the_device_is_not_blamed_for_its_gaps():
    m = on_host(20.0)
    both = [
        {"name": "aten::unique", "where": "f (train.py:41)", "host_total_ms": 2.0, "host_self_ms": 2.0, "on_host": True},
        {"name": "aten::unique", "where": "f (train.py:41)", "host_total_ms": 9.0, "host_self_ms": 9.0, "on_host": False},
    ]
    mixed = made_measured(ledger={LAUNCH: 20.0}, tables={"operators": both, "gaps": m.device.gaps.to_dicts()})

    assert judge("operation-on-host", mixed) is None


def test_without_stacks_the_operator_is_found_and_the_option_named():
    found = finding("operation-on-host", on_host(20.0, where=None, recorded=EVERYTHING - {"stacks", "python"}, facts=TORCH))

    assert "aten::unique" in found.title
    assert "with_stack=True" in found.fixes[0].text


def test_unknown_places_are_not_judged():
    operators = [{"name": "aten::mm", "host_total_ms": 1.0, "host_self_ms": 1.0, "on_host": None}]

    m = made_measured(ledger={LAUNCH: 6.0}, tables={"operators": operators, "gaps": gaps(6.0)})

    assert reason("operation-on-host", m).code == "places-not-traced"
    assert judge("operation-on-host", made_measured(tables={"operators": operators})) is None


def test_kernels_without_launches_leave_the_host_unknown():
    found = reason("operation-on-host", on_host(1.0, completeness={"kernels_with_launch": 0.83}))

    assert (found.code, found.values["share"]) == ("launches-missing", 0.83)
    assert judge("operation-on-host", made_measured(completeness={"kernels_with_launch": 0.83})) is None


# recompilation


ONE_STEP = [
    ({"steps": 1, "mark": "window"}, "no-marks"),
    ({"steps": 1, "whole_steps": 4}, "one-step-chosen"),
    ({"steps": 1}, "one-step"),
]


def compiled(ms: float, steps: int = 10, **more: Any) -> list[dict[str, Any]]:
    row = {
        "name": "_compile.compile_inner (dynamo_timed)",
        "where": "f (train.py:8)",
        "start_ns": 0,
        "end_ms": ms,
        "exposed_ms": ms,
        "part": LAUNCH,
    }
    return [row | {"step": step} | more for step in range(steps)]


def test_compiling_in_the_steps_is_found():
    m = made_measured(ledger={LAUNCH: 45.0}, tables={"compilations": compiled(40.0)}, replay={NO_COMPILATION: 60.0}, facts=TORCH)

    found = finding("recompilation", m)

    assert found.share == pytest.approx(0.4)
    assert found.claims == (LAUNCH,)
    assert found.gain.predicted == pytest.approx(100 / 60)
    assert "f (train.py:8)" in found.title
    assert any("mark_dynamic" in fix.text for fix in found.fixes)


def test_compiling_stands_in_the_stage_that_was_charged():
    m = made_measured(ledger={dry_part("cudaFree"): 45.0}, tables={"compilations": compiled(40.0, part=dry_part("cudaFree"))})

    assert finding("recompilation", m).stage == "d2h"


def test_compiling_in_one_step_of_ten_is_uncertain_and_not_hidden():
    m = made_measured(ledger={LAUNCH: 45.0}, tables={"compilations": compiled(40.0, steps=1)})

    found = finding("recompilation", m)

    assert found.share == pytest.approx(0.04)
    assert found.share_low < 0.03


@pytest.mark.parametrize(("given", "code"), ONE_STEP, ids=["no marks", "chosen", "one"])
def test_compiling_that_may_be_the_first_is_not_judged(given, code):
    m = made_measured(ledger={LAUNCH: 45.0}, tables={"compilations": compiled(40.0, steps=1)}, **given)

    answer = judge("recompilation", m)

    assert isinstance(answer, NotJudged)
    assert answer.reason.code == code


def test_compiling_beside_a_busy_device_costs_nothing():
    assert judge("recompilation", made_measured(tables={"compilations": compiled(40.0, exposed_ms=0.0, part=None)})) is None


def test_compiling_of_less_than_three_percent_is_no_finding():
    assert judge("recompilation", made_measured(ledger={LAUNCH: 3.0}, tables={"compilations": compiled(2.9)})) is None


def test_without_a_device_compiling_is_found_on_the_host():
    m = made_measured(has_device=False, rest=FORWARD, tables={"compilations": compiled(40.0, part=None)})

    assert finding("recompilation", m).claims == (piece(FORWARD, PieceKind.COMPILING),)


def test_a_trace_of_the_device_alone_does_not_tell_of_compiling():
    shown = {"recorded": {"device", "runtime"}, "facts": TORCH}

    found = reason("recompilation", made_measured(ledger={LAUNCH: 3.0}, tables={"gaps": gaps(3.0)}, **shown))

    assert found.code == "compiling-not-traced"
    assert "TORCH_LOGS=recompiles" in found.values["remedy"]
    assert judge("recompilation", made_measured(**shown)) is None


# loss-scaling-gaps


def scaled(ms: float, **more: Any) -> list[dict[str, Any]]:
    row = {"start_ns": 0, "end_ms": ms + 1.0, "thread": 0, "where": "f (train.py:55)", "run_dry_ms": ms, "part": SYNC}
    return [row | {"step": step} | more for step in range(10)]


HALF = {"name": "h16816gemm", "class": "matmul", "total_ms": 900.0, "precision": "float16"}


def test_the_scalers_read_back_is_found():
    m = made_measured(ledger={SYNC: 8.0}, tables={"loss_scaling": scaled(8.0)}, replay={NO_LOSS_SCALING: 92.5}, facts=TORCH)

    found = finding("loss-scaling-gaps", m)

    assert found.stage == "d2h"
    assert found.share == pytest.approx(0.08)
    assert found.claims == (SYNC,)
    assert found.gain.predicted == pytest.approx(100 / 92.5)
    assert "bfloat16" in found.fixes[0].text
    assert found.fixes[0].changes_numerics
    assert not found.fixes[1].changes_numerics


def test_where_another_read_back_shares_the_part_the_scaler_claims_its_piece():
    m = made_measured(ledger={SYNC: 30.0}, tables={"loss_scaling": scaled(8.0)})

    assert finding("loss-scaling-gaps", m).claims == (piece(SYNC, PieceKind.LOSS_SCALING),)


def test_devices_without_bfloat16_are_told_of_fused_optimizers_only():
    m = made_measured(ledger={SYNC: 8.0}, tables={"loss_scaling": scaled(8.0)}, compute_capability=7.0)

    assert ["bfloat16" in fix.text for fix in finding("loss-scaling-gaps", m).fixes] == [False]


def test_a_scaler_that_does_not_let_the_device_run_dry_is_no_finding():
    m = made_measured(ledger={SYNC: 2.9}, tables={"loss_scaling": scaled(2.9), "kernels": [HALF]})

    assert judge("loss-scaling-gaps", m) is None


def test_a_float16_training_without_operators_is_not_judged():
    idle = {"ledger": {LAUNCH: 3.0}, "recorded": {"device", "runtime"}}
    m = made_measured(tables={"kernels": [HALF], "gaps": gaps(3.0)}, **idle)

    assert reason("loss-scaling-gaps", m).code == "no-operators-of-scaler"


def test_tensorflows_loss_scaling_is_not_judged():
    tables = {"kernels": [HALF], "gaps": gaps(3.0)}
    m = made_measured(ledger={LAUNCH: 3.0}, tables=tables, facts={"framework": "tensorflow"})

    assert reason("loss-scaling-gaps", m).code == "scaling-not-told-apart"


def test_a_training_in_another_precision_needs_no_scaler():
    tables = {"kernels": [HALF | {"precision": "bfloat16"}], "gaps": gaps(3.0)}
    m = made_measured(ledger={LAUNCH: 3.0}, recorded={"device", "runtime"}, tables=tables)

    assert judge("loss-scaling-gaps", m) is None


# allocator-churn


def churned(ms: float, **more: Any) -> Measurements:
    """Steps of 100 ms in which the device runs dry after cudaFree, and waits for cudaMalloc for 1 ms."""
    found = gaps(ms, stage="d2h", part=FREE, call="cudaFree", operator="aten::empty")
    found += gaps(1.0, call="cudaMalloc", operator="aten::empty") + gaps(9.0, call="cudaStreamSynchronize", operator="aten::item")
    memory = [{"step": step, "allocator_calls": 6, "allocator_ms": 2.0, "peak_reserved_bytes": 30_000_000_000} for step in range(10)]
    ledger = {FREE: ms, LAUNCH: 20.0}
    return made_measured(ledger=ledger, tables={"gaps": found, "memory": memory}, **more)


def test_allocating_inside_the_steps_is_found():
    found = finding("allocator-churn", churned(6.0, replay={NO_ALLOCATOR_CALLS: 94.0}, facts=TORCH))

    assert found.share == pytest.approx(0.07)
    assert found.stage == "d2h"
    assert found.claims == (piece(LAUNCH, PieceKind.ALLOCATOR_CALLS), FREE)
    assert found.gain.predicted == pytest.approx(100 / 94)
    assert value(found, "allocator calls") == 6.0
    assert value(found, "most memory held") == 30.0
    assert "expandable_segments:True" in found.fixes[0].text
    assert "empty_cache" in found.fixes[2].text


def test_allocating_of_less_than_three_percent_is_no_finding():
    assert judge("allocator-churn", churned(1.9)) is None
    assert isinstance(judge("allocator-churn", churned(2.1)), Judged)


@pytest.mark.parametrize(("given", "code"), ONE_STEP, ids=["no marks", "chosen", "one"])
def test_allocating_that_may_be_the_first_calls_own_is_not_judged(given, code):
    found = gaps(60.0, call="cudaFree", operator="aten::conv2d")[:1]

    answer = judge("allocator-churn", made_measured(ledger={LAUNCH: 60.0}, tables={"gaps": found}, **given))

    assert isinstance(answer, NotJudged)
    assert answer.reason.code == code


def test_allocating_in_one_step_of_several_is_uncertain():
    found = gaps(60.0, call="cudaMalloc", operator="aten::conv2d")[:1]

    once = finding("allocator-churn", made_measured(steps=4, ledger={LAUNCH: [60.0, 0.0, 0.0, 0.0]}, tables={"gaps": found}))

    assert once.share_low < CLAIM < once.share


@pytest.mark.parametrize("call", ["cudaMallocAsync", "cudaFreeAsync", "cudaLaunchKernel", "cudaMemcpyAsync", None])
def test_pools_and_other_calls_are_not_the_allocators(call):
    m = made_measured(ledger={LAUNCH: 20.0}, tables={"gaps": gaps(20.0, call=call)})

    assert judge("allocator-churn", m) is None


@pytest.mark.parametrize(
    "call", ["cudaMalloc", "cudaFree", "hipMalloc", "hipFree", "cudaHostAlloc", "cuMemAlloc_v2", "cuMemUnmap", "hipExtMallocWithFlags"]
)
def test_every_runtimes_calls_are_known(call):
    m = made_measured(ledger={LAUNCH: 20.0}, tables={"gaps": gaps(20.0, call=call)})

    assert isinstance(judge("allocator-churn", m), Judged)


def test_without_runtime_calls_allocating_is_not_judged():
    m = made_measured(ledger={LAUNCH: 3.0}, recorded=EVERYTHING - {"runtime"}, tables={"gaps": gaps(3.0)})

    assert reason("allocator-churn", m).code == "no-runtime-calls"


# exposed-communication and small-collectives


def collective(count: int, exposed_ms: float, size: int | None, **more: Any) -> dict[str, Any]:
    row = {"operation": "all_reduce", "name": "ncclDevKernel_AllReduce", "bytes": size, "group_size": 8, "count": count}
    return row | {"total_ms": exposed_ms, "exposed_ms": exposed_ms, "overlapped_ns": 0} | more


def sharing(*collectives: dict[str, Any], **more: Any) -> Measurements:
    """Ten steps of 100 ms; what is exposed of the collectives, of the whole window, is charged to the steps alike."""
    exposed = sum(row["exposed_ms"] for row in collectives) / 10
    return made_measured(ledger={COLLECTIVES: exposed}, tables={"collectives": collectives}, **more)


def test_exposed_communication_is_found_with_its_bandwidth_and_its_doubt():
    large = collective(40, 300.0, 25 << 20, overlapped_ms=100.0, bus_gb_per_s=40.0)
    found = finding(
        "exposed-communication", sharing(large, replay={COMMUNICATION_OVERLAPPED: (75.0, 70.0, 90.0)}, facts=TORCH | {"world_size": 16})
    )

    assert found.stage == "gradient_sharing"
    assert found.share == pytest.approx(0.3)
    assert found.gain.predicted == pytest.approx(100 / 75)
    assert "no other rank is late" in found.gain.assumes
    assert value(found, "overlapped already") == pytest.approx(0.25)
    assert value(found, "ranks") == 16
    assert value(found, "bus bandwidth of the first") == 40.0
    assert "no_sync" in found.fixes[1].text


def test_exchanges_between_the_layers_are_not_told_of_buckets():
    found = finding("exposed-communication", sharing(collective(10, 300.0, 25 << 20, operation="all_to_all"), facts=TORCH))

    assert "TrainPipelineSparseDist" in found.fixes[0].text
    assert not any("no_sync" in fix.text for fix in found.fixes)


def test_collectives_that_no_step_waits_for_are_no_finding():
    small = collective(800, 300.0, 40_000)

    assert judge("exposed-communication", sharing(small, replay={COMMUNICATION_OVERLAPPED: 99.6})) is None
    assert judge("small-collectives", sharing(small, replay={COLLECTIVES_MERGED: 99.6})) is None


def test_under_a_tenth_the_last_bucket_may_be_exposed():
    assert judge("exposed-communication", sharing(collective(40, 99.0, 25 << 20))) is None


def test_communication_is_judged_without_a_device_too():
    assert finding(
        "exposed-communication", sharing(collective(40, 300.0, 25 << 20, library="gloo"), has_device=False)
    ).share == pytest.approx(0.3)


def test_small_collectives_are_found():
    m = sharing(collective(800, 200.0, 40_000), collective(20, 50.0, 25 << 20), replay={COLLECTIVES_MERGED: 82.0}, facts=TORCH)

    found = finding("small-collectives", m)

    assert found.share == pytest.approx(0.2)
    assert found.title.startswith("80 small collectives a step carry 3.2 MB between them")
    assert found.claims == (COLLECTIVES,)
    assert found.gain.predicted == pytest.approx(100 / 82)
    assert value(found, "mean size") == pytest.approx(40_000)
    assert value(found, "each") == pytest.approx(250.0)
    assert "bucket_cap_mb" in found.fixes[0].text


def test_how_many_small_collectives_a_step_has_is_not_known_of_a_trace_without_steps():
    ledger = {COLLECTIVES: 200.0}
    m = made_measured(steps=1, step_ms=1000.0, mark="window", ledger=ledger, tables={"collectives": [collective(800, 200.0, 40_000)]})

    answer = judge("small-collectives", m)

    assert isinstance(answer, NotJudged)
    assert answer.reason.code == "no-marks"


def test_small_collectives_that_are_the_lesser_part_claim_their_piece():
    m = sharing(collective(800, 50.0, 40_000), collective(20, 200.0, 25 << 20))

    assert finding("small-collectives", m).claims == (piece(COLLECTIVES, PieceKind.SMALL_COLLECTIVES),)


@pytest.mark.parametrize(("count", "fires"), [(120, True), (100, False)], ids=["twelve a step", "ten a step"])
def test_more_than_ten_small_collectives_a_step_are_many(count, fires):
    assert (judge("small-collectives", sharing(collective(count, 200.0, 40_000))) is not None) is fires


def test_few_small_collectives_large_ones_and_barriers_are_no_finding():
    assert judge("small-collectives", sharing(collective(100, 200.0, 40_000))) is None
    assert judge("small-collectives", sharing(collective(800, 200.0, 1 << 20))) is None
    assert judge("small-collectives", sharing(collective(800, 200.0, 8, operation="barrier"))) is None
    assert judge("small-collectives", sharing(collective(800, 29.0, 40_000))) is None


def test_collectives_of_unknown_size_are_not_judged_where_they_would_matter():
    assert reason("small-collectives", sharing(collective(800, 200.0, None), facts=TORCH)).code == "collective-sizes-not-traced"
    assert judge("small-collectives", sharing(collective(100, 200.0, None))) is None
    assert judge("small-collectives", sharing(collective(800, 20.0, None))) is None
