from __future__ import annotations

from typing import Any

import pytest

from judged_traces import evidence, finding, judged, reason
from made_measured_traces import EVERYTHING, gaps_of, made_measured
from made_parts import dry_part, span_part
from slowstep.analyses.events.parts import INPUT_WAIT, LAUNCH, NO_LAUNCH, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import LAUNCHES_FREE, NO_INPUT_WAIT, NO_WORK_BETWEEN_STEPS
from slowstep.analyses.replay.unjudged import DELAYS_IN_STEP
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.rules.input import input_wait
from slowstep.parts import Part, PieceKind
from slowstep.stages import UNATTRIBUTED

WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
ALONE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def waiting(ms: Any, *, name: str = WORKERS, requests: int = 10, exposed_ms: float | None = None, **more: Any) -> Measurements:
    each = exposed_ms if exposed_ms is not None else ms if isinstance(ms, float) else max(ms)
    loader = [{"step": n, "name": name, "start_ms": 0.0, "end_ms": each + 0.2, "exposed_ms": each} for n in range(requests)]
    return made_measured(ledger={INPUT_WAIT: ms}, tables={"loader": loader, "gaps": more.pop("gaps", ())}, **more)


def idle(ms: float) -> list[dict[str, Any]]:
    """Gaps of the device of so many milliseconds a step that nobody can explain."""
    return gaps_of(ms, stage=UNATTRIBUTED, part=NO_LAUNCH)


# input-wait


def test_a_late_batch_is_found_with_its_share_and_the_gain_of_the_replay():
    found = finding("input-wait", waiting(30.0, replay={NO_INPUT_WAIT: (70.0, 68.0, 75.0)}))

    assert (found.stage, found.claims, found.names_cause) == ("preprocess", (INPUT_WAIT,), False)
    assert found.share == pytest.approx(0.30)
    assert found.gain.predicted == pytest.approx(100 / 70)
    assert evidence(found, "waiting for input").where == WORKERS
    assert evidence(found, "fix saves per step").value == pytest.approx(30.0)
    assert evidence(found, "longest request").value == pytest.approx(30.2)


def test_the_spread_of_a_wait_in_two_of_ten_steps_begins_near_nothing():
    found = finding("input-wait", waiting([0.0] * 8 + [50.0, 50.0]))

    assert found.share == pytest.approx(0.10)
    assert found.share_low < 0.03 < found.share < found.share_high


@pytest.mark.parametrize(("ms", "fires"), [(4.9, False), (5.1, True)])
def test_a_wait_below_five_percent_is_no_finding(ms, fires):
    assert isinstance(judged("input-wait", waiting(ms)), Judged) is fires


def test_batches_that_lay_ready_are_not_late_though_receiving_them_takes_a_tenth_of_a_short_step():
    quick = {"step_ms": 3.0, "exposed_ms": 0.3}

    assert judged("input-wait", waiting(0.3, **quick)) is None
    assert judged("input-wait", waiting(0.3, name=ALONE, **quick)) is not None


def test_a_training_that_makes_its_own_batches_is_told_to_use_workers():
    found = finding("input-wait", waiting(30.0, name=ALONE, facts={"framework": "pytorch"}))

    assert "makes itself" in found.title
    assert "num_workers=4" in found.fixes[0].text


def test_the_fix_is_that_of_the_traces_framework():
    assert "tf.data" in finding("input-wait", waiting(30.0, facts={"framework": "tensorflow"})).fixes[0].text
    assert "num_workers" not in finding("input-wait", waiting(30.0, facts={"framework": "tensorflow"})).fixes[0].text


def test_without_a_device_the_wait_is_found_all_the_same():
    assert finding("input-wait", waiting(30.0, has_device=False)).share == pytest.approx(0.30)
    assert judged("input-wait", waiting(1.0, has_device=False)) is None


def test_a_scenario_that_was_not_replayed_leaves_the_gain_unknown_with_the_reason():
    found = finding("input-wait", waiting(30.0, replay={NO_INPUT_WAIT: DELAYS_IN_STEP(share=0.2)}))

    assert (found.gain.predicted, found.gain.low, found.gain.high) == (None, None, None)
    assert (found.gain.unknown_because.code, found.gain.unknown_because.values["why"]) == (
        "not-replayed",
        DELAYS_IN_STEP(share=0.2),
    )
    assert evidence(found, "fix saves per step").value is None


def test_without_any_request_input_is_not_judged():
    found = reason("input-wait", made_measured(facts={"framework": "pytorch"}))

    assert found.code == "no-requests"
    assert "record_function" in found.values["remedy"]


@pytest.mark.parametrize("framework", ["pytorch", "jax", "tensorflow", None])
def test_a_recording_is_advised_of_every_framework(framework):
    found = finding("input-wait", waiting(30.0, facts={"framework": framework}))

    assert found.fixes[1:] == (input_wait.RECORD_IT,)


def test_requests_without_a_length_are_not_judged():
    loader = [{"step": n, "name": WORKERS, "start_ms": 1.0, "end_ms": 1.0} for n in range(10)]

    assert reason("input-wait", made_measured(tables={"loader": loader})).code == "requests-without-length"


def test_few_launches_in_the_trace_leave_a_small_wait_unjudged_and_a_large_one_found():
    seen = {"completeness": {"kernels_with_launch": 0.85}}

    found = reason("input-wait", waiting(1.0, gaps=idle(5.1), **seen))
    assert (found.code, found.values["share"]) == ("launches-missing", 0.85)
    assert judged("input-wait", waiting(1.0, gaps=idle(4.9), **seen)) is None
    assert finding("input-wait", waiting(30.0, **seen)).share == pytest.approx(0.30)


# gaps-between-steps


def between(ms: float, part: Part = LAUNCH, **more: Any) -> Measurements:
    cause = {name: more.pop(name) for name in ("call", "operator", "where", "between_steps") if name in more}
    return made_measured(tables={"gaps": gaps_of(ms, part=part, **({"between_steps": True} | cause))}, **more)


def test_a_callback_between_steps_is_named_and_claims_its_part():
    confusion = span_part("output", "Confusion.on_train_batch_end")

    found = finding(
        "gaps-between-steps",
        between(12.0, confusion, where="f (train.py:7)", replay={NO_WORK_BETWEEN_STEPS: 89.0}),
    )

    assert (found.stage, found.claims, found.names_cause) == ("output", (confusion,), True)
    assert found.share == pytest.approx(0.12)
    assert "Confusion.on_train_batch_end in f (train.py:7)" in found.title
    assert "once in 10 steps" in found.fixes[0].text
    assert found.gain.predicted == pytest.approx(100 / 89)
    assert evidence(found, "median gap").value == pytest.approx(12.0)


def test_host_work_without_a_name_names_no_cause():
    found = finding("gaps-between-steps", between(12.0, call="cudaLaunchKernel"))

    assert found.claims == (LAUNCH,)
    assert not found.names_cause
    assert "cudaLaunchKernel" not in found.title


def test_a_range_around_host_work_names_it():
    found = finding("gaps-between-steps", between(12.0, call="## publish ##", where="f (train.py:7)"))

    assert found.names_cause
    assert "## publish ## in f (train.py:7)" in found.title


def test_a_function_is_named_with_its_line_once():
    found = finding(
        "gaps-between-steps", between(12.0, span_part("output", "save_masks in f (train.py:143)"), where="f (/home/me/train.py:143)")
    )

    assert found.title.endswith(": save_masks in f (train.py:143)")


@pytest.mark.parametrize("cause", [{"operator": "aten::sort"}, {"call": "dynamo"}], ids=["operator", "compiling"])
def test_what_has_a_rule_of_its_own_leaves_the_lead_to_it(cause):
    compiled = {"step": 0, "name": "dynamo", "start_ns": 0, "end_ns": 1, "exposed_ns": 1, "thread": 0}
    tables = {"gaps": gaps_of(12.0, part=LAUNCH, between_steps=True, **cause), "compilations": [compiled]}

    found = finding("gaps-between-steps", made_measured(tables=tables))

    assert next(iter(cause.values())) in found.title
    assert not found.names_cause


def test_a_gap_across_two_steps_is_one_gap():
    halves = [row | {"gap": 7 + (row["step"] + 1) // 2, "end_ms": row["end_ms"] + row["step"]} for row in gaps_of(6.0)]

    found = finding("gaps-between-steps", made_measured(tables={"gaps": [row | {"part": LAUNCH, "between_steps": True} for row in halves]}))

    assert evidence(found, "median gap").value == pytest.approx(17.0)


@pytest.mark.parametrize(("ms", "fires"), [(4.9, False), (5.1, True)])
def test_a_gap_below_five_percent_is_no_finding(ms, fires):
    assert isinstance(judged("gaps-between-steps", between(ms)), Judged) is fires


@pytest.mark.parametrize(
    "gap",
    [
        {"between_steps": False},
        {"part": INPUT_WAIT},
        {"part": dry_part("cudaStreamSynchronize")},
    ],
)
def test_gaps_inside_steps_waits_for_input_and_run_dry_time_are_left_to_others(gap):
    assert judged("gaps-between-steps", between(20.0, **gap)) is None


def test_one_step_has_nothing_between():
    assert reason("gaps-between-steps", made_measured(steps=1)).code == "one-step"


# launch-bound

SMALL = {"median_kernel_ns": 6e3, "median_delay_ns": 5e3, "short_kernels": 700, "queue_empty_share": 0.4}


def launching(each_ms: float, pieces: int, *, where: str | None = None, **more: Any) -> Measurements:
    cause = {"part": LAUNCH, "between_steps": more.pop("between_steps", False), "operator": "aten::add", "where": where}
    gaps = [row for n in range(pieces) for row in gaps_of(each_ms, gap=n, **cause)]
    launches = [{"step": n, "kernels": 1000, "launches": 1000, **SMALL} for n in range(10)]
    return made_measured(tables={"gaps": gaps, "launches": launches}, **more)


def test_many_small_gaps_before_launches_are_bound_by_launching():
    found = finding("launch-bound", launching(0.05, 400, replay={LAUNCHES_FREE: 80.0}))

    assert (found.stage, found.claims) == ("compute", (LAUNCH,))
    assert found.share == pytest.approx(0.20)
    assert found.gain.predicted == pytest.approx(1.25)
    assert "1,000 kernels a step" in found.title
    assert evidence(found, "median kernel").value == pytest.approx(6.0)
    assert evidence(found, "kernels shorter").value == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("input_ms", "left_ms", "says_more"),
    [(30.0, 60.0, True), (30.0, 80.0, False), (0.0, 60.0, False)],
    ids=["more", "gaps", "no input"],
)
def test_why_more_is_gained_than_the_gaps_take_is_said_where_input_is_fetched(input_ms, left_ms, says_more):
    found = finding("launch-bound", launching(0.05, 400, replay={LAUNCHES_FREE: left_ms}, ledger={INPUT_WAIT: input_ms}))

    assert ("fetch input while the device works" in found.gain.assumes) is says_more


@pytest.mark.parametrize(("pieces", "fires"), [(98, False), (102, True)])
def test_launches_below_five_percent_are_no_finding(pieces, fires):
    assert isinstance(judged("launch-bound", launching(0.05, pieces)), Judged) is fires


def test_long_host_work_between_launches_is_no_matter_of_launching_and_its_gain_unknown():
    found = finding("launch-bound", launching(20.0, 1, where="f (model.py:9)", replay={LAUNCHES_FREE: 80.0}))

    assert "host's own work" in found.title
    assert "aten::add in f (model.py:9)" in found.fixes[0].text
    assert not any("graph" in fix.text for fix in found.fixes)
    assert found.gain.predicted is None
    assert evidence(found, "fix saves per step").value is None


def test_long_host_work_without_a_name_is_to_be_named():
    gaps = gaps_of(20.0, part=LAUNCH)

    fixes = finding("launch-bound", made_measured(tables={"gaps": gaps}, facts={"framework": "pytorch"})).fixes

    assert "record_function" in fixes[0].text
    assert not any("graph" in fix.text for fix in fixes)


def test_long_host_work_of_a_trace_without_steps_may_be_set_up_and_is_no_matter_of_the_step():
    gaps = gaps_of(20.0, steps=[0], part=LAUNCH, operator="aten::conv2d")
    m = made_measured(steps=1, mark="window", tables={"gaps": gaps}, facts={"framework": "pytorch"})

    found = finding("launch-bound", m)

    assert [fix.text.split(":")[0] for fix in found.fixes] == ["see whether what the host does around aten"]
    assert "prof.step()" in found.fixes[0].text
    assert evidence(found, "steps looked at").value is None


def test_host_work_is_named_by_the_costliest_of_its_long_stretches():
    stretches = [("a", 3.0, 3), ("b", 8.0, 1), ("c", 0.5, 20)]
    gaps = [
        row
        for number, (name, ms, count) in enumerate(stretches)
        for stretch in range(count)
        for row in gaps_of(ms, gap=100 * number + stretch, part=LAUNCH, operator=name)
    ]

    found = finding("launch-bound", made_measured(tables={"gaps": gaps}))

    assert evidence(found, "of it in gaps").value == pytest.approx(17 / 27)
    assert "(a)" in found.title


def test_a_graph_keeps_the_numbers_and_fusing_may_not():
    fixes = finding("launch-bound", launching(0.05, 400, facts={"framework": "pytorch"})).fixes

    assert "CUDA graph" in fixes[0].text
    assert [fix.changes_numerics for fix in fixes] == [False, True, True]


@pytest.mark.parametrize(
    ("inside", "claims"), [(30.0, (LAUNCH, piece(LAUNCH, PieceKind.BETWEEN_STEPS))), (8.0, (piece(LAUNCH, PieceKind.INSIDE_STEPS), LAUNCH))]
)
def test_of_launches_inside_and_between_steps_the_larger_claims_the_part_and_the_other_a_piece(inside, claims):
    gaps = [*gaps_of(inside, part=LAUNCH), *gaps_of(12.0, gap=1, part=LAUNCH, between_steps=True)]
    m = made_measured(tables={"gaps": gaps})

    assert (finding("launch-bound", m).claims, finding("gaps-between-steps", m).claims) == tuple((claim,) for claim in claims)


def test_gaps_between_steps_are_no_launching():
    assert judged("launch-bound", launching(0.05, 400, between_steps=True)) is None


@pytest.mark.parametrize("rule", ["launch-bound", "gaps-between-steps"])
def test_without_calls_of_the_runtime_gaps_are_not_judged(rule):
    unseen = {"recorded": EVERYTHING - {"runtime"}, "completeness": {"kernels_with_launch": None}, "tables": {"gaps": idle(5.1)}}

    torch, nsys = (reason(rule, made_measured(facts=facts, **unseen)) for facts in ({"framework": "pytorch"}, {"profiler": "nsys"}))
    assert torch.code == nsys.code == "no-runtime-calls"
    assert "ProfilerActivity.CUDA" in torch.values["remedy"]
    assert "nsys profile" in nsys.values["remedy"]


@pytest.mark.parametrize("rule", ["launch-bound", "gaps-between-steps"])
def test_a_device_that_hardly_idles_is_clean_whatever_its_gaps_come_from(rule):
    assert judged(rule, made_measured(recorded=EVERYTHING - {"runtime"}, tables={"gaps": idle(4.9)})) is None


@pytest.mark.parametrize("rule", ["launch-bound", "gaps-between-steps"])
def test_a_trace_without_the_devices_work_is_not_judged_and_one_without_any_device_is_clean(rule):
    assert reason(rule, made_measured(has_device=False, facts={"vendor": "nvidia"})).code == "no-device-work"
    assert judged(rule, made_measured(has_device=False)) is None
