from __future__ import annotations

from typing import Any

import pytest

from judged_traces import evidence, finding, judged, reason
from made_measured_traces import EVERYTHING, gaps_of, made_measured
from made_parts import dry_part
from slowstep.analyses.events.parts import COPIES, DEVICE_COPIES, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import COPIES_OVERLAPPED, COPIES_PINNED, NO_DEVICE_COPIES, NO_REPEATED_COPIES
from slowstep.diagnosis.rule import Judged
from slowstep.parts import PieceKind

MB = 1_000_000
TO_DEVICE = piece(COPIES["h2d"], PieceKind.TO_DEVICE)
SYNC = "cudaStreamSynchronize"
BATCH = {"kind": "h2d", "operator": "aten::to", "where": "f (train.py:30)", "count": 20, "steps": 10, "bytes": 1000 * MB, "pageable": False}
WAIT = {"call": SYNC, "operator": "aten::to", "where": "f (train.py:30)"}


def copying(exposed_ms: float, *rows: dict[str, Any], wait_ms: float = 0.0, steps: int = 10, **more: Any) -> Measurements:
    """A training whose copies to the device are exposed for so long in each step, all of it in the first of `rows`."""
    first, *others = rows or ({},)
    known = {"total_ms": steps * (exposed_ms + 1.0), "exposed_ms": steps * exposed_ms, "blocking": wait_ms > 0}
    copies = [BATCH | known | first, *(BATCH | {"total_ms": 1.0, "where": "f (train.py:31)"} | row for row in others)]
    waits = WAIT | {"count": steps, "steps": steps, "run_dry_ms": steps * wait_ms}
    gaps = gaps_of(wait_ms, steps=range(steps if wait_ms else 0), stage="d2h", part=dry_part(SYNC, "f (train.py:30)"), **WAIT)
    tables = {"copies": copies, "synchronizations": [waits] if wait_ms else [], "gaps": gaps}
    return made_measured(steps=steps, ledger={COPIES["h2d"]: exposed_ms}, tables=tables, **more)


# exposed-copy


def test_a_copy_that_nothing_hides_is_found_with_its_place_and_speed():
    found = finding("exposed-copy", copying(9.0, replay={COPIES_OVERLAPPED: (92.0, 91.0, 96.0)}))

    assert (found.stage, found.claims, found.names_cause) == ("h2d", (TO_DEVICE,), False)
    assert found.share == pytest.approx(0.09)
    assert "aten::to in f (train.py:30)" in found.title
    assert evidence(found, "copied").value == pytest.approx(100.0)
    assert evidence(found, "speed").value == pytest.approx(10.0)
    assert evidence(found, "aten::to, 20 copies in 10 steps").value == pytest.approx(0.09)
    assert found.gain.predicted == pytest.approx(100 / 92)


def test_the_wait_for_a_copy_counts_with_it_and_is_claimed():
    found = finding("exposed-copy", copying(1.0, wait_ms=5.0))

    assert found.share == pytest.approx(0.06)
    assert found.claims == (TO_DEVICE, dry_part(SYNC, "f (train.py:30)"))
    assert evidence(found, "of it, while copying").value == pytest.approx(0.01)
    assert evidence(found, "the host waits for").value == pytest.approx(1.0)


@pytest.mark.parametrize(("ms", "fires"), [(2.9, False), (3.1, True)])
def test_copies_below_three_percent_are_no_finding(ms, fires):
    assert isinstance(judged("exposed-copy", copying(ms)), Judged) is fires


def test_copies_beside_kernels_are_healthy():
    assert judged("exposed-copy", copying(0.0, {"total_ms": 900.0})) is None


def test_copies_of_several_streams_at_once_count_once_as_in_the_ledger():
    m = copying(9.0, {}, {"exposed_ms": 90.0})

    found = finding("exposed-copy", m)

    assert found.share == pytest.approx(0.09)
    assert evidence(found, "aten::to, 20 copies").value == pytest.approx(0.045)


def test_copies_that_take_longer_than_the_kernels_must_get_fewer():
    bound, hidden = (finding("exposed-copy", copying(30.0, {"total_ms": 10 * ms})) for ms in (71.0, 69.0))

    assert "longer than the kernels" in bound.fixes[-1].text
    assert evidence(bound, "copies take").value == pytest.approx(71 / 70)
    assert "longer than the kernels" not in hidden.fixes[-1].text


@pytest.mark.parametrize(
    "place",
    [
        {"operator": "FSDP::pre_forward (shared)"},
        {"operator": "FullyShardedDataParallel.forward"},
        {"where": "f (deepspeed/runtime/zero/partitioned_param_coordinator.py:310)"},
        {"operator": "Optimizer.step#AdamW.step"},
    ],
)
def test_copies_of_offloaded_parameters_are_advised_for_parameters(place):
    fixes = finding("exposed-copy", copying(30.0, {"total_ms": 710.0} | place)).fixes

    assert "next layer's parameters" in fixes[0].text
    assert "keep parameters and states on the device" in fixes[1].text
    assert not any("batch" in fix.text or "uint8" in fix.text for fix in fixes)


@pytest.mark.parametrize(
    "place", [{"operator": "aten::to", "where": "f (train.py:30)"}, {"operator": None, "where": "f (parametric.py:3)"}]
)
def test_copies_of_anything_else_are_advised_for_the_next_batch(place):
    assert "next batch" in finding("exposed-copy", copying(9.0, place)).fixes[0].text


def test_places_stand_in_the_order_of_what_they_hold():
    found = finding("exposed-copy", copying(9.0, {"exposed_ms": 1.0}, {"exposed_ms": 89.0}))

    assert "(aten::to in f (train.py:31) and 1 more)" in found.title
    assert [row.where for row in found.evidence if row.name.startswith("aten::to")] == ["f (train.py:31)", "f (train.py:30)"]


def test_the_costliest_place_that_has_a_name_is_named():
    nowhere = {"operator": None, "where": None}

    assert "(aten::to in f (train.py:31) and 1 more)" in finding("exposed-copy", copying(9.0, nowhere, {"exposed_ms": 1.0})).title
    assert "does not name" in finding("exposed-copy", copying(9.0, nowhere)).title


def test_a_copy_in_two_of_ten_steps_has_a_share_that_begins_near_nothing():
    found = finding("exposed-copy", copying(4.0, {"steps": 2}))

    assert found.share == pytest.approx(0.04)
    assert found.share_low < 0.03


# pageable-copy


def test_pageable_copies_are_the_cause_of_what_they_hold():
    found = finding(
        "pageable-copy", copying(6.0, {"pageable": True}, wait_ms=3.0, replay={COPIES_PINNED: 92.0}, facts={"framework": "pytorch"})
    )

    assert (found.stage, found.names_cause) == ("h2d", True)
    assert found.claims == (TO_DEVICE, dry_part(SYNC, "f (train.py:30)"))
    assert found.share == pytest.approx(0.09)
    assert found.gain.predicted == pytest.approx(100 / 92)
    assert "pin_memory=True" in found.fixes[0].text
    assert "non_blocking=True" in found.fixes[0].text


@pytest.mark.parametrize(("ms", "fires"), [(2.9, False), (3.1, True)])
def test_pageable_copies_below_three_percent_are_no_finding(ms, fires):
    assert isinstance(judged("pageable-copy", copying(ms, {"pageable": True})), Judged) is fires


def test_of_copies_that_are_pinned_only_the_pageable_ones_count():
    assert judged("pageable-copy", copying(9.0)) is None
    assert judged("pageable-copy", copying(9.0, {}, {"pageable": True})) is None


def test_a_wait_for_another_copy_is_not_held_against_a_pageable_one():
    elsewhere = {"pageable": True, "where": "f (train.py:31)", "exposed_ms": 20.0}

    assert judged("pageable-copy", copying(1.0, {"blocking": True}, elsewhere, wait_ms=9.0)) is None
    assert finding("exposed-copy", copying(1.0, {"blocking": True}, elsewhere, wait_ms=9.0)).share == pytest.approx(0.10)


def test_whether_memory_was_pinned_matters_only_where_copies_do():
    assert reason("pageable-copy", copying(9.0, {"pageable": None})).code == "pinned-not-traced"
    assert judged("pageable-copy", copying(2.0, {"pageable": None})) is None


# repeated-copy


def test_a_constant_that_is_copied_in_every_step_is_named():
    m = copying(5.0, {"repeated": True}, replay={NO_REPEATED_COPIES: 95.5}, facts={"framework": "pytorch"})

    found = finding("repeated-copy", m)

    assert (found.stage, found.claims, found.names_cause) == ("h2d", (TO_DEVICE,), True)
    assert found.share == pytest.approx(0.05)
    assert "aten::to in f (train.py:30)" in found.title
    assert "register_buffer" in found.fixes[0].text
    assert found.gain.predicted == pytest.approx(100 / 95.5)


@pytest.mark.parametrize(("ms", "fires"), [(2.9, False), (3.1, True)])
def test_repeated_copies_below_three_percent_are_no_finding(ms, fires):
    assert isinstance(judged("repeated-copy", copying(ms, {"repeated": True})), Judged) is fires


def test_the_batch_itself_does_not_repeat():
    assert judged("repeated-copy", copying(9.0, {}, {"repeated": True})) is None


def test_one_step_shows_nothing_that_repeats():
    assert reason("repeated-copy", copying(9.0, steps=1)).code == "one-step"
    assert judged("repeated-copy", copying(2.0, steps=1)) is None


def test_the_line_is_asked_for_only_where_stacks_were_not_recorded():
    unknown = {"repeated": True, "where": None}
    without = EVERYTHING - {"stacks", "python"}

    assert (
        "with_stack=True" in finding("repeated-copy", copying(9.0, unknown, recorded=without, facts={"framework": "pytorch"})).fixes[0].text
    )
    assert "with_stack=True" not in finding("repeated-copy", copying(9.0, unknown, facts={"framework": "pytorch"})).fixes[0].text


# device-to-device-copies


def inside(ms: Any, *rows: dict[str, Any], **more: Any) -> Measurements:
    copies = [{"kind": "d2d", "count": 10, "steps": 10, "bytes": 4000 * MB, "total_ms": 50.0} | row for row in rows]
    return made_measured(ledger={DEVICE_COPIES: ms}, tables={"copies": copies}, **more)


def test_copies_within_the_device_are_named_by_operator_and_line():
    m = inside(
        8.0, {"operator": "aten::cat", "where": "f (model.py:5)"}, {"kind": "p2p", "total_ms": 30.0}, replay={NO_DEVICE_COPIES: 92.0}
    )

    found = finding("device-to-device-copies", m)

    assert (found.stage, found.claims, found.names_cause) == ("compute", (DEVICE_COPIES,), True)
    assert found.share == pytest.approx(0.08)
    assert "(aten::cat in f (model.py:5))" in found.title
    assert evidence(found, "aten::cat, 10 copies").value == pytest.approx(0.625)
    assert found.gain.predicted == pytest.approx(100 / 92)


def test_without_operators_they_are_found_and_no_cause_is_named():
    found = finding("device-to-device-copies", inside(8.0, {}))

    assert not found.names_cause
    assert found.title.endswith("of the time")


@pytest.mark.parametrize(("ms", "fires"), [(2.9, False), (3.1, True)])
def test_copies_within_the_device_below_three_percent_are_no_finding(ms, fires):
    assert isinstance(judged("device-to-device-copies", inside(ms, {})), Judged) is fires


# all of them


@pytest.mark.parametrize("rule", ["exposed-copy", "pageable-copy", "repeated-copy", "device-to-device-copies"])
def test_a_trace_without_the_devices_work_is_not_judged_and_one_without_any_device_is_clean(rule):
    launches = [{"step": 0, "kernels": 0, "launches": 3}]
    assert reason(rule, made_measured(has_device=False, facts={"vendor": "nvidia"})).code == "no-device-work"
    assert reason(rule, made_measured(has_device=False, tables={"launches": launches})).code == "no-device-work"
    assert judged(rule, made_measured(has_device=False)) is None


def test_where_copies_are_pageable_that_leads_and_the_exposed_copy_is_folded_into_it():
    from slowstep.diagnosis.law import fold

    m = copying(9.0, {"pageable": True}, replay={COPIES_PINNED: 95.0, COPIES_OVERLAPPED: 91.0})
    answers = [judged(rule, m) for rule in ("exposed-copy", "pageable-copy", "repeated-copy")]

    (leading,) = fold(answer for answer in answers if isinstance(answer, Judged))

    assert leading.finding.rule == "pageable-copy"
    assert leading.finding.also == ("exposed-copy",)
