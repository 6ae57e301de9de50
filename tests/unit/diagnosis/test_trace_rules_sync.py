from __future__ import annotations

from typing import Any

import pytest

from judged_traces import evidence, finding, judged, reason
from made_measured_traces import EVERYTHING, changed, gaps_of, made_measured, measured_table
from made_parts import dry_part
from made_topics import with_topics
from slowstep.analyses.events.parts import COPIES, LAUNCH, NO_LAUNCH, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.replay_topic import ReplayTopic
from slowstep.analyses.replay.scenarios import LAUNCHES_FREE, NO_READBACKS, NO_SYNCHRONIZATION
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.rule import Judged
from slowstep.parts import PieceKind
from slowstep.stages import UNATTRIBUTED

SYNC = "cudaStreamSynchronize"
MB = 1_000_000


def wait(
    ms: float, *, call: str = SYNC, operator: str | None = "aten::item", where: str | None = "f (train.py:41)", **row: Any
) -> dict[str, Any]:
    """A synchronizing call and the time for which the device ran dry after it: ms in each of the steps that `on` lists."""
    on = list(row.pop("on", range(10)))
    place = {"call": call, "operator": operator, "where": where}
    known = {"count": len(on), "steps": len(on), "host_wait_ms": 2 * ms * len(on), "run_dry_ms": ms * len(on)}
    return {"gaps": gaps_of(ms, steps=on, stage="d2h", part=dry_part(call, where), **place), "call": place | known | row}


def dry(*waits: dict[str, Any], **more: Any) -> Measurements:
    gaps = [row for number, one in enumerate(waits) for row in ({**gap, "gap": gap["gap"] + number} for gap in one["gaps"])]
    tables = {"gaps": gaps, "synchronizations": [one["call"] for one in waits]} | more.pop("tables", {})
    return made_measured(tables=tables, **more)


# host-sync


def test_a_synchronizing_call_is_named_with_its_line_and_claims_its_part():
    m = dry(
        wait(12.0, call="cudaDeviceSynchronize", operator=None, where="f (train.py:9)"), replay={NO_SYNCHRONIZATION: (88.0, 86.0, 92.0)}
    )

    found = finding("host-sync", m)

    assert (found.stage, found.claims, found.names_cause) == ("d2h", (dry_part("cudaDeviceSynchronize", "f (train.py:9)"),), True)
    assert found.share == pytest.approx(0.12)
    assert found.title.startswith("cudaDeviceSynchronize in f (train.py:9) waits")
    assert found.gain.predicted == pytest.approx(100 / 88)
    assert evidence(found, "cudaDeviceSynchronize, 10 calls in 10 steps").where == "f (train.py:9)"
    assert evidence(found, "host time inside").value == pytest.approx(240.0)


def test_several_calls_stand_together_the_costliest_first():
    m = dry(wait(2.0, operator="aten::nonzero", where="f (loss.py:3)"), wait(4.0, operator="aten::unique", where="f (loss.py:8)"))

    found = finding("host-sync", m)

    assert found.share == pytest.approx(0.06)
    assert found.claims == (dry_part(SYNC, "f (loss.py:8)"), dry_part(SYNC, "f (loss.py:3)"))
    assert "aten::unique in f (loss.py:8) and 1 more" in found.title


@pytest.mark.parametrize(("ms", "fires"), [(2.9, False), (3.1, True)])
def test_a_wait_that_costs_less_than_three_percent_is_no_finding(ms, fires):
    assert isinstance(judged("host-sync", dry(wait(ms, operator=None))), Judged) is fires


def test_calls_that_let_nothing_run_dry_are_healthy_however_long_the_host_waits():
    assert judged("host-sync", dry(wait(0.0, operator=None, host_wait_ms=900.0))) is None


@pytest.mark.parametrize("call", ["cudaFree", "cudaMalloc", "hipFree"])
def test_calls_of_the_allocator_are_left_to_the_rule_about_it(call):
    assert judged("host-sync", dry(wait(12.0, call=call, operator=None))) is None
    assert judged("host-sync", made_measured(tables={"gaps": wait(12.0, call=call)["gaps"]})) is None


def test_a_wait_that_the_table_of_calls_does_not_know_is_found_by_its_part():
    found = finding("host-sync", made_measured(tables={"gaps": wait(12.0, where=None)["gaps"]}))

    assert found.claims == (dry_part(SYNC),)


def test_a_read_back_now_and_then_is_a_synchronization():
    m = dry(wait(20.0, reads_back=True, bytes=12, on=[1, 4, 7]))

    found = finding("host-sync", m)

    assert found.share == pytest.approx(0.06)
    assert found.share_low < 0.03
    assert judged("readback-every-step", m) is None


def test_a_wait_for_a_copy_to_the_device_is_left_to_the_rules_about_copies():
    copies = [
        {"kind": "h2d", "operator": "aten::to", "where": "f (train.py:41)", "count": 10, "steps": 10, "total_ms": 5.0, "blocking": True}
    ]
    waits = wait(12.0, operator="aten::to")

    assert judged("host-sync", dry(waits, tables={"copies": copies})) is None
    assert finding("host-sync", dry(waits, tables={"copies": [copies[0] | {"where": "f (train.py:90)"}]})) is not None


def test_without_stacks_the_fix_says_how_to_get_the_line():
    m = dry(wait(12.0, operator=None, where=None), recorded=EVERYTHING - {"stacks", "python"}, facts={"framework": "pytorch"})

    assert "with_stack=True" in finding("host-sync", m).fixes[0].text


# readback-every-step


def test_a_loss_that_is_read_in_every_step_is_named():
    m = dry(wait(9.0, reads_back=True, bytes=40), replay={NO_READBACKS: 90.0}, facts={"framework": "pytorch"})

    found = finding("readback-every-step", m)

    assert (found.stage, found.claims, found.names_cause) == ("d2h", (dry_part(SYNC, "f (train.py:41)"),), True)
    assert found.share == pytest.approx(0.09)
    assert found.title.startswith("aten::item in f (train.py:41) reads a value back in every step")
    assert found.gain.predicted == pytest.approx(100 / 90)
    assert evidence(found, "bytes each").value == pytest.approx(4.0)
    assert evidence(found, "steps with it").value == pytest.approx(1.0)
    assert evidence(found, "aten::item, 1 a step").where == "f (train.py:41)"
    assert ".item() once in 50 steps" in found.fixes[0].text
    assert judged("host-sync", m) is None


@pytest.mark.parametrize(("ms", "fires"), [(2.9, False), (3.1, True)])
def test_a_read_back_that_costs_less_than_three_percent_is_no_finding(ms, fires):
    assert isinstance(judged("readback-every-step", dry(wait(ms, reads_back=True, bytes=40))), Judged) is fires


@pytest.mark.parametrize(("steps", "fires"), [(9, True), (8, False)])
def test_every_step_may_miss_one_at_the_edge_of_the_window(steps, fires):
    m = dry(wait(9.0, reads_back=True, bytes=4 * steps, on=range(steps)))

    assert isinstance(judged("readback-every-step", m), Judged) is fires
    assert isinstance(judged("host-sync", m), Judged) is not fires


def test_in_a_window_of_one_step_nothing_is_known_of_every_step_and_the_wait_is_a_synchronization():
    m = dry(wait(9.0, reads_back=True, bytes=4, on=[0]), steps=1)

    assert judged("readback-every-step", m) is None
    assert finding("host-sync", m).share == pytest.approx(0.09)


@pytest.mark.parametrize(("scaler_ms", "left_out"), [(5.0, True), (4.0, False)])
def test_a_gradient_scalers_read_back_is_left_to_the_rule_about_it(scaler_ms, left_out):
    m = dry(wait(9.0, reads_back=True, bytes=40))
    read = {"part": dry_part(SYNC, "f (train.py:41)"), "run_dry_ms": scaler_ms}
    reads = measured_table("loss_scaling", [read] * 10)
    m = changed(m, loss_scaling=reads)

    assert (judged("readback-every-step", m) is None) is left_out
    assert judged("host-sync", m) is None


def test_what_one_part_waits_for_is_what_most_of_its_time_was_spent_for():
    m = dry(
        wait(8.0, where=None, reads_back=True, bytes=40),
        wait(1.0, where=None, operator="aten::nonzero"),
    )

    found = finding("readback-every-step", m)

    assert found.share == pytest.approx(0.09)
    assert found.title.startswith("aten::item reads")
    assert judged("host-sync", m) is None


def late(readbacks_gone_ms: float) -> Measurements:
    """Steps of 100 ms with a read-back, after which the device runs dry for 1 ms, and with 20 gaps of 0.9 ms before launches."""
    read = wait(1.0, reads_back=True, bytes=40)
    launch = [row for number in range(20) for row in gaps_of(0.9, gap=500 + number, part=LAUNCH)]
    copy = {"kind": "d2h", "operator": "aten::item", "where": "train.py:41", "count": 10, "steps": 10, "total_ms": 0.1, "blocking": True}
    return made_measured(
        tables={"gaps": [*read["gaps"], *launch], "synchronizations": [read["call"]], "copies": [copy]},
        replay={NO_READBACKS: readbacks_gone_ms, LAUNCHES_FREE: 80.0},
        facts={"framework": "pytorch"},
    )


def test_a_read_back_that_keeps_the_host_from_running_ahead_is_the_cause_of_the_launches_that_come_late():
    found = finding("readback-every-step", late(84.0))

    assert (found.stage, found.claims) == ("compute", (dry_part(SYNC, "f (train.py:41)"), LAUNCH))
    assert found.share == pytest.approx(0.16)
    assert "the host then cannot launch ahead of the device" in found.title
    assert evidence(found, "of it, idle right after").value == pytest.approx(0.01)
    diagnosis = diagnose(late(84.0))
    assert [(one.rule, one.also) for one in diagnosis.findings] == [("readback-every-step", ("launch-bound",))]


@pytest.mark.parametrize("gone_ms", [99.0, 91.0], ids=["nothing", "the lesser part"])
def test_where_launches_are_late_without_read_backs_as_well_launching_is_the_cause(gone_ms):
    assert judged("readback-every-step", late(gone_ms)) is None

    found = finding("launch-bound", late(gone_ms))

    assert evidence(found, "read-backs that the host waits for").value == pytest.approx(1.0)
    assert "take the step's read-backs (1) out first" in found.fixes[0].text


def test_without_a_replay_a_read_back_is_blamed_for_what_follows_it_at_once_only():
    m = late(84.0)
    unknown = with_topics(m, replay=ReplayTopic(table=m.replay.table.clear()))

    assert judged("readback-every-step", unknown) is None


# large-readback

LARGE = {"kind": "d2h", "operator": "aten::to", "where": "f (train.py:60)", "count": 10, "steps": 10, "bytes": 320 * MB, "pageable": True}


def large(wait_ms: float, exposed_ms: float, **copy: Any) -> Measurements:
    row = LARGE | {"total_ms": 10 * exposed_ms, "exposed_ms": 10 * exposed_ms} | copy
    waits = wait(wait_ms, operator="aten::to", where="f (train.py:60)", reads_back=True, bytes=row["bytes"])
    return dry(waits, ledger={COPIES["d2h"]: exposed_ms}, tables={"copies": [row]}, replay={NO_READBACKS: 80.0})


def test_an_output_copied_to_the_host_is_found_with_its_size_and_both_its_parts():
    m = large(8.0, 4.0)

    found = finding("large-readback", m)

    assert (found.stage, found.names_cause) == ("d2h", True)
    assert found.claims == (piece(COPIES["d2h"], PieceKind.TO_HOST), dry_part(SYNC, "f (train.py:60)"))
    assert found.share == pytest.approx(0.12)
    assert found.title.startswith("copies of 32.0 MB to the host")
    assert "(aten::to in f (train.py:60))" in found.title
    assert evidence(found, "copied").value == pytest.approx(32.0)
    assert evidence(found, "speed").value == pytest.approx(8.0)
    assert evidence(found, "into pageable memory").value == pytest.approx(1.0)
    assert found.gain.predicted == pytest.approx(1.25)
    assert judged("readback-every-step", m) is None


@pytest.mark.parametrize(("each", "fires"), [(1 << 20, True), ((1 << 20) - 1, False)])
def test_large_is_from_one_mebibyte_on(each, fires):
    m = large(8.0, 4.0, bytes=10 * each)

    assert isinstance(judged("large-readback", m), Judged) is fires
    assert isinstance(judged("readback-every-step", m), Judged) is not fires


def test_large_copies_beside_kernels_are_healthy():
    assert judged("large-readback", large(0.0, 0.0, total_ms=300.0)) is None
    assert judged("large-readback", large(1.0, 1.9)) is None
    assert isinstance(judged("large-readback", large(1.0, 2.1)), Judged)


def test_exposed_copies_of_unknown_size_are_not_judged():
    assert reason("large-readback", large(0.0, 8.0, bytes=None)).code == "sizes-not-traced"
    assert judged("large-readback", large(0.0, 2.0, bytes=None)) is None


# all of them


@pytest.mark.parametrize("rule", ["host-sync", "readback-every-step", "large-readback"])
def test_a_trace_without_the_devices_work_is_not_judged_and_one_without_any_device_is_clean(rule):
    assert reason(rule, made_measured(has_device=False, facts={"vendor": "amd"})).code == "no-device-work"
    assert judged(rule, made_measured(has_device=False)) is None


@pytest.mark.parametrize("rule", ["host-sync", "readback-every-step"])
def test_without_calls_of_the_runtime_nothing_is_known_of_waits(rule):
    unseen = {"recorded": EVERYTHING - {"runtime"}, "completeness": {"kernels_with_launch": None}}
    idle = {share: gaps_of(share, stage=UNATTRIBUTED, part=NO_LAUNCH) for share in (2.9, 3.1)}

    assert reason(rule, made_measured(tables={"gaps": idle[3.1]}, **unseen)).code == "no-runtime-calls"
    few = reason(rule, made_measured(tables={"gaps": idle[3.1]}, completeness={"kernels_with_launch": 0.8}))
    assert (few.code, few.values["share"]) == ("launches-missing", 0.8)
    assert judged(rule, made_measured(tables={"gaps": idle[2.9]}, **unseen)) is None
