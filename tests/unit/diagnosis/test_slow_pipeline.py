"""A pipeline of the framework's own that keeps compiled calls waiting: named where it does, left to others where they know more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from judged import answer_of, code_of, finding, judged, unjudged, values
from made_measurements import per_step
from made_pipeline_waits import WAIT, looping, trained
from made_pipelines import LOAD, PARSE, node, pipeline, slow_map, written
from slowstep.analyses.input.pipeline import Pipeline
from slowstep.analyses.input.pipeline_functions import PipelineFunction
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.frameworks._known import all_words
from slowstep.frameworks._words import Words
from slowstep.parts import UNKNOWN, CodePlace, Part, PartKind

NAME = "slow-pipeline"
BOTH = PipelineFunction(name="both", place=CodePlace("train.py", 3))
BLOCKED = Part("read", PartKind.BLOCKED)


def test_a_pipeline_that_is_waited_for_is_named_with_what_a_ready_batch_gains():
    m = trained(30.0, used=0.5)

    found, verdict = finding(NAME, m), diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", NAME), verdict.reason
    assert found.gain.predicted == pytest.approx(4.0, rel=0.05)
    # With as much again of it a step takes half as long at worst.
    assert found.gain.low is not None
    assert found.gain.low == pytest.approx(2.0, rel=0.05)
    assert values(found)["of each step"] == pytest.approx(29.7)
    assert (values(found)["cores used"], found.evidence[0].where) == (0.5, "data set tf.data")
    assert found.evidence[0].value == pytest.approx(0.743, abs=0.001)


@pytest.mark.parametrize(("unread", "rule"), [("several-replicas", NAME), ("too-slow", "serial-loader")])
def test_of_batches_that_are_divided_among_replicas_no_stage_was_counted_and_yet_the_training_does_not_make_them(unread, rule):
    m = looping({BLOCKED: 18.0}, input={"pipeline": Pipeline(stages=(), written=(), batches=0, unread=unread)})

    assert {name for name in (NAME, "serial-loader") if answer_of(name, m) is not None} == {rule}


def test_what_is_handed_over_in_each_of_several_batches_is_no_wait():
    assert values(finding(NAME, trained(30.0, counted={"batches": 4.0})))["of each step"] == pytest.approx(28.8)


@pytest.mark.parametrize(("used", "needed"), [(0.85, 0.25), (2.55, 0.75), (3.4, 1.0), (4.0, 1.0)])
def test_what_all_processes_compute_is_needed_and_half_of_the_step_at_worst(used, needed):
    m = trained(30.0, used=used)

    case = judged(NAME, m).counterfactual
    step_ns = m.step_ns.mean()
    assert case.expected.concurrent_ns == pytest.approx(needed * step_ns)
    assert case.pessimistic.concurrent_ns == pytest.approx(max(needed, 0.5) * step_ns)
    assert case.optimistic.concurrent_ns == 0


@pytest.mark.parametrize("more", [{"machine": {"cores": None}}, {"used": None}])
def test_of_unknown_cores_or_of_what_is_used_of_them_nothing_is_known_to_be_needed(more):
    assert judged(NAME, trained(30.0, **more)).counterfactual.expected.concurrent_ns == 0


@pytest.mark.parametrize(("wait_ms", "is_found"), [(0.85, True), (0.8, False)], ids=["5.1 % of the time", "4.6 %"])
def test_a_wait_of_a_twentieth_of_the_time_is_worth_a_finding(wait_ms, is_found):
    assert (answer_of(NAME, trained(wait_ms)) is not None) == is_found


def test_where_all_cores_compute_nothing_is_gained_by_more_of_it():
    found = finding(NAME, trained(30.0, used=3.4))

    assert found.gain.predicted == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("work_ms", [10.0, 1.0])
def test_a_pipeline_that_keeps_up_is_left_alone_however_short_the_step(work_ms):
    assert answer_of(NAME, trained(0.3, work_ms=work_ms)) is None


@pytest.mark.parametrize(
    "counted",
    [{"num_workers": 0}, {"waits": (), "hides_waits": True}, {"waits": (), "is_asynchronous": True}, {"is_asynchronous": True}],
    ids=["serial-loader judges it", "nobody counts its waits", "a loop of JAX", "calls go on while it waits"],
)
def test_one_that_serial_loader_judges_and_one_whose_waits_nobody_counts_are_left_to_others(counted):
    assert answer_of(NAME, trained(30.0, counted=counted)) is None


def test_of_calls_that_hide_their_waits_the_verdict_stays_open():
    m = trained(0.0, work_ms=0.0, counted={"hides_waits": True}, ledger={UNKNOWN: 10.0})

    verdict = diagnose(m).verdict

    assert verdict.state == "undetermined"
    assert verdict.reason is not None


def test_a_framework_without_words_is_advised_workers_in_a_clause():
    counted = {"num_workers": 0, "busy_ns": np.asarray(per_step(30.0)), "dataset": "made"}

    found = finding("serial-loader", trained(30.0, counted=counted, words=Words(name="made", title="Made", arguments={})))

    assert found.fixes[0].text == "give the loader more worker processes"


def test_the_stage_that_holds_it_up_is_named_with_its_function_and_place():
    found = finding(NAME, trained(18.0, input={"pipeline": slow_map(18.0)}, used=1.5))

    assert found.names_cause
    assert "map of load (train.py:7)" in found.title
    assert values(found)["slowest stage"] == "map"
    assert values(found)["it takes for a batch"] == pytest.approx(18.0)


@pytest.mark.parametrize(
    ("name", "stages", "words"),
    [
        ("Map", [written("Map", BOTH, LOAD, PARSE)], "map of both (train.py:3)"),
        ("Map", [written("Map", PARSE), written("Map", BOTH)], "map"),
        ("Map", [written("Map", PARSE), written("Map", BOTH, LOAD)], "map"),
        ("MapAndFilter", [written("Filter", PARSE), written("Map", BOTH)], "filter"),
    ],
    ids=["one calls two in Python", "two maps were made one", "one of them is in Python", "a map and a filter"],
)
def test_of_several_functions_in_a_stage_none_is_the_cause_and_all_are_evidence(name, stages, words):
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, name, ms=18.0)]

    found = finding(NAME, trained(18.0, input={"pipeline": pipeline(nodes, written("Prefetch"), *stages)}))

    assert not found.names_cause
    assert found.title.endswith(f" held up by {words}")
    assert values(found)["its functions"] == 2


@pytest.mark.parametrize(("ms", "is_blamed"), [(8.7, False), (9.0, True)], ids=["0.49 of it", "0.51 of it"])
def test_a_stage_that_takes_less_than_half_of_the_wait_is_not_blamed_for_it(ms, is_blamed):
    nodes = [node(1, "Root", 2), node(2, "Map", ms=ms)]

    assert finding(NAME, trained(18.0, input={"pipeline": pipeline(nodes, written("Map", PARSE))})).names_cause == is_blamed


def test_of_an_eager_loop_it_is_judged_here_and_not_as_a_loader_without_workers():
    m = looping({BLOCKED: 18.0}, input={"pipeline": slow_map(18.0)})

    assert finding(NAME, m).stage == "read"
    assert answer_of("serial-loader", m) is None
    assert answer_of(NAME, looping({BLOCKED: 18.0})) is None


def test_of_an_eager_loop_it_is_judged_where_threads_of_the_pipeline_compute_meanwhile():
    m = looping({WAIT: 18.0}, input={"pipeline": slow_map(18.0)})

    found = finding(NAME, m)
    assert (found.stage, found.claims, found.names_cause) == ("preprocess", (WAIT,), True)
    assert answer_of(NAME, looping({WAIT: 18.0})) is None


def test_of_an_eager_loop_that_takes_several_batches_in_a_step_all_of_them_count():
    slow = pipeline([node(1, "Root", 2), node(2, "Map", ms=9.0)], written("Map", PARSE), interval_ms=10.0)

    found = finding(NAME, looping({BLOCKED: 40.0}, input={"pipeline": slow}, requests_per_step=4.0))

    assert found.names_cause
    assert values(found)["batches of a step"] == 4.0


def busy(made: Pipeline) -> Measurements:
    """A training that waits for a pipeline beside others, who use half of the cores."""
    return trained(18.0, input={"pipeline": made}, others=2.0)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        ({"ms": 2.0, "ready": 2}, "batches-lie-ready"),
        ({"ms": 2.0, "ready": 1}, "batches-lie-ready"),
        ({"ms": 2.0, "ready": 0}, None),
        # At work for 0.6 of the time between two batches, 20 ms.
        ({"ms": 11.8, "ready": 2}, "batches-lie-ready"),
        ({"ms": 12.1, "ready": 2}, None),
    ],
    ids=["full", "half full", "empty", "hardly at work", "at work"],
)
def test_on_a_busy_machine_a_pipeline_whose_batches_lie_ready_may_not_be_what_is_waited_for(made, code):
    m = busy(slow_map(**made))

    assert code_of(NAME, m) == code
    assert diagnose(m).verdict.state == ("bottleneck" if code is None else "undetermined")


@pytest.mark.parametrize(("ms", "code"), [(8.7, "batches-lie-ready"), (9.0, None)], ids=["0.49 of the wait", "0.51 of it"])
def test_what_runs_in_the_request_itself_is_waited_for_however_full_the_buffer_behind_it(ms, code):
    nodes = [node(1, "Root", 2), node(2, "Map", 3, ms=ms), node(3, "Prefetch", 4, buffer_size=2, buffered=2), node(4, "Range", ms=0.1)]

    assert code_of(NAME, busy(pipeline(nodes, written("Map", PARSE)))) == code


def test_of_several_inputs_each_must_lie_ready():
    nodes = [node(1, "Root", 2), node(2, "Zip", 3, 5), node(3, "Prefetch", 4, buffer_size=2, buffered=2), node(4, "Range", ms=0.1)]
    other = [node(5, "Prefetch", 6, buffer_size=2, buffered=0), node(6, "Map", ms=1.0)]
    full = [{**each, "buffered": 2} if each["name"] == "Prefetch" else each for each in other]

    assert code_of(NAME, busy(pipeline([*nodes, *other]))) is None
    assert code_of(NAME, busy(pipeline([*nodes, *full]))) == "batches-lie-ready"


def test_on_a_quiet_machine_one_that_is_full_on_average_is_waited_for_now_and_then():
    assert code_of(NAME, trained(18.0, input={"pipeline": slow_map(2.0, ready=2)})) is None
    assert finding(NAME, trained(18.0, input={"pipeline": slow_map(2.0, ready=2)})).share > 0.5


@pytest.mark.parametrize("rule", ["slow-collate", "slow-transform"])
@pytest.mark.parametrize("stages", [True, False], ids=["its stages were looked at", "they were not"])
def test_of_what_stages_of_a_pipeline_make_no_function_of_a_loader_is_in_doubt(rule, stages):
    unknown = {"wall_ns": None, "cpu_ns": None}
    m = looping({WAIT: 30.0}, demand=unknown, **({"input": {"pipeline": slow_map(30.0)}} if stages else {}))

    answer = unjudged(rule, m)

    assert answer is not None
    assert (answer.reason.code, answer.advisory) == (("made-by-pipeline", True) if stages else ("made-elsewhere", False))


HANDED_ON = (written("FlatMap", LOAD, is_generator=True, reads="PyDataset"), written("Generator", LOAD, is_generator=True))


@pytest.mark.parametrize(
    ("stages", "name"),
    [
        (HANDED_ON, "load"),
        ((*HANDED_ON, written("FlatMap", PARSE, is_generator=True)), None),
        ((written("Map", PARSE), written("FlatMap", LOAD, is_generator=True)), None),
        ((written("Prefetch"),), None),
    ],
    ids=["one loader", "two", "a stage of its own", "no generator"],
)
def test_where_no_stage_is_known_the_function_is_named_that_makes_what_is_handed_on(stages, name):
    unread = replace(slow_map(18.0), stages=(), written=stages, slowest=None, bound_ns=None)

    found = finding(NAME, trained(18.0, input={"pipeline": unread}))

    assert values(found).get("made by") == name
    assert {each.where for each in found.evidence if each.name == "made by"} == ({"train.py:7"} if name else set())
    assert not found.names_cause


def test_where_a_stage_is_known_it_is_named_alone():
    known = replace(slow_map(18.0), written=HANDED_ON)

    found = finding(NAME, trained(18.0, input={"pipeline": known}))

    assert "made by" not in values(found)
    assert "slowest stage" in values(found)


def test_batches_that_are_always_there_bound_what_each_fix_gains():
    found = finding(NAME, trained(30.0, words=all_words()["keras"]))

    assert {fix.bounded_by for fix in found.fixes} == {"mock-loader"}
    assert {fix.lever for fix in found.fixes} == {None}


def test_in_a_loop_whose_pipeline_no_lever_changes_none_is_named():
    found = finding(NAME, looping({BLOCKED: 18.0}, input={"pipeline": slow_map(18.0), "loader": {"framework": "tensorflow"}}))

    assert {fix.bounded_by for fix in found.fixes} == {None}


@pytest.mark.parametrize(("others_ms", "code"), [(9.0, "compiled-step"), (11.0, None)], ids=["0.53 of it", "0.48 of it"])
def test_a_step_that_is_one_call_of_the_framework_is_not_called_healthy_while_nobody_knows_what_takes_most_of_it(others_ms, code):
    part = Part("compute", PartKind.FORWARD_AND_REST)

    verdict = diagnose(trained(0.1, work_ms=10.0, ledger={part: others_ms})).verdict

    assert (verdict.reason is not None and verdict.reason.code == "compiled-step") is (code is not None)
    assert verdict.state == ("healthy" if code is None else "undetermined")
