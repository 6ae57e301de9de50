"""An error of slowstep's own in one analysis, rule or part of the document costs what needs it, and the report stands."""

from __future__ import annotations

import inspect
import json
import stat
from dataclasses import replace

import pytest

from few import few
from kineto_files import event, kernel, launch, written
from made_ranks import make_job
from made_recordings import Training, make_recording
from slowstep.analyses import measure_recording as recording_measure
from slowstep.analyses import measure_trace as trace_measure
from slowstep.analyses import recording_analyses
from slowstep.diagnosis import engine, law
from slowstep.document import recorded_run, training
from slowstep.document.validity import validate
from slowstep.errors import NothingRecorded
from slowstep.faults import Attempts, Fault, Faulty, Results
from slowstep.report import terminal
from slowstep.report.fault_log import LOG
from slowstep.report.terminal import render
from slowstep.sources.kineto import SOURCE as KINETO
from slowstep.sources.recording import SOURCE, OpenRecording
from slowstep.workflow import diagnose_recordings, judge_job, read_capture
from slowstep.workflow.analyze import analyze
from slowstep.workflow.internal_errors import INTERNAL_ERROR
from slowstep.workflow.traces import traces

BF16 = "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn"
MESSAGE = "made to fail"
# Analyses of loops that no loader feeds, and of captures: the made training is none, and has none.
OF_OTHERS = ("find_timed_lines", "times_of_functions", "with_captured_ledger")
# The document is made of these; the others are parts of them.
SECTIONS = {
    "_run": recorded_run,
    "throughput_section": training,
    "ledger_section": training,
    "overhead_section": training,
    "find_recording_doubts": diagnose_recordings,
    "_by_hand": recorded_run,
    "ending_note": recorded_run,
    "_periodic": recorded_run,
}


def analyses_of(module, *without):
    """The analyses that a module's measuring calls, by name."""
    own = {name: value for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")}
    return sorted(name for name, value in own.items() if value.__module__.startswith("slowstep.analyses") and name not in without)


# The module of each: what topics need, and what topics are.
RECORDING_ANALYSES = {
    name: module for module in (recording_analyses, recording_measure) for name in analyses_of(module, "measure_recording", *OF_OTHERS)
}


def judging(topics):
    return sorted(name for name, rule in law.rules().items() if topics.keys() >= set(rule.topics))


def failing(error=ZeroDivisionError):
    def fails(*_, **__):
        raise error(MESSAGE)

    return fails


def internal_error(report):
    """The counter of faults; holds that the report is a valid one that can be drawn."""
    validate(json.loads(json.dumps(report)))
    assert INTERNAL_ERROR.name in render(report, width=100, color=False)
    (row,) = [row for row in report["health"] if row["name"] == INTERNAL_ERROR.name]
    assert row["severity"] == "error"
    assert MESSAGE in row["remedy"]
    return row


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """A small recording of a healthy training, and what is read of it: no test reads it again."""
    training = Training(steps=60, getitem_ms=0.2, workers=2, fixed_ms=20.0)
    folder = make_recording(tmp_path_factory.mktemp("isolation") / "recording", training)
    timeline = SOURCE.read(folder)
    return folder, timeline, recording_measure.measure_recording(timeline).settle()


@pytest.fixture
def report_of(healthy, monkeypatch):
    folder, timeline, _ = healthy
    monkeypatch.setattr(OpenRecording, "timeline", lambda *_, **__: timeline)
    return lambda: diagnose_recordings.diagnose_recording(folder)


@pytest.fixture
def report_of_measured(report_of, healthy, monkeypatch):
    """The same of what was measured before."""
    monkeypatch.setattr(diagnose_recordings, "measure_recording", lambda *_, **__: healthy[2])
    return report_of


def test_the_made_training_is_healthy_where_nothing_fails(report_of):
    report = report_of()
    assert report["verdict"]["state"] == "healthy"
    assert not [row for row in report["health"] if row["name"] == INTERNAL_ERROR.name]


@pytest.mark.parametrize("name", few(RECORDING_ANALYSES, every=16, is_sweep=True))
def test_an_analysis_that_fails_leaves_a_report_that_is_not_healthy(report_of, monkeypatch, name):
    monkeypatch.setattr(RECORDING_ANALYSES[name], name, failing())

    report = report_of()

    internal_error(report)
    assert report["verdict"]["state"] == "undetermined"


def test_a_capture_that_cannot_be_measured_leaves_a_report_that_is_not_healthy(report_of, healthy, monkeypatch):
    _, timeline, _ = healthy
    note = {"file": "capture-3.json", "first": 3, "last": 5, "begin_ns": 0, "end_ns": 0}
    processes = [replace(each, notes={**each.notes, "captures": [note]}) for each in timeline.processes]
    monkeypatch.setattr(OpenRecording, "timeline", lambda *_, **__: replace(timeline, processes=processes))
    monkeypatch.setattr(read_capture, "measure_capture", failing())

    report = report_of()

    internal_error(report)
    assert report["verdict"]["state"] == "undetermined"
    assert sum(row["share"] or 0.0 for row in report["ledger"]) == pytest.approx(1.0)


def test_what_does_not_need_a_failed_analysis_is_measured(report_of, monkeypatch):
    before = report_of()
    monkeypatch.setattr(recording_measure, "find_garbage", failing())

    report = report_of()

    for kept in ("ledger", "throughput", "overhead"):
        assert report[kept] == before[kept]
    assert report["run"]["steps"] == before["run"]["steps"]
    new = {row["rule"] for row in report["not_judged"]} - {row["rule"] for row in before["not_judged"]}
    assert new == {"garbage-collection"}


@pytest.mark.parametrize("name", few(judging(recording_measure.MAKERS), every=16, is_sweep=True))
def test_a_rule_that_fails_is_not_judged(report_of_measured, monkeypatch, name):
    rules = law.rules()
    monkeypatch.setattr(engine, "rules", lambda: rules | {name: replace(rules[name], judge=failing())})

    report = report_of_measured()

    assert internal_error(report)["count"] == 1
    assert next(row["code"] for row in report["not_judged"] if row["rule"] == name) == "internal-error"
    shares = {row["stage"]: row["share"] for row in report["ledger"]}
    has_weight = not rules[name].advisory and max(shares[stage] for stage in rules[name].stages) >= law.UNJUDGED_STAGE
    assert (report["verdict"]["state"] == "healthy") is not has_weight


@pytest.mark.parametrize("name", few(SECTIONS, every=8))
def test_a_part_of_the_document_that_fails_leaves_the_others(report_of_measured, monkeypatch, name):
    monkeypatch.setattr(SECTIONS[name], name, failing())

    report = report_of_measured()

    internal_error(report)
    assert len(report["ledger"]) == 9


DRAWN = ("_draw_header", "draw_ledger", "_draw_verdict", "draw_proofs", "draw_findings", "draw_ranks", "draw_experiments", "_draw_footer")


@pytest.mark.parametrize("name", few(DRAWN, every=4))
def test_a_part_of_the_page_that_fails_leaves_the_others(report_of_measured, monkeypatch, name):
    report = report_of_measured()
    whole = set(render(report, width=100, color=False).splitlines())
    monkeypatch.setattr(terminal, name, failing())

    shown = render(report, width=100, color=False)

    assert shown.count(MESSAGE) == 1
    assert len(whole & set(shown.splitlines())) > len(whole) / 3


@pytest.mark.parametrize("name", ["_conclude", "_largest_stage"])
def test_a_verdict_that_fails_is_undetermined(report_of_measured, monkeypatch, name):
    monkeypatch.setattr(engine, name, failing())

    report = report_of_measured()

    internal_error(report)
    assert report["verdict"]["state"] == "undetermined"
    assert report["run"]["next_command"].startswith("SLOWSTEP_DEBUG=1 slowstep analyze")


@pytest.mark.parametrize("name", few(["compare_ranks", "_judge_each", "rank_sections"], every=3))
@pytest.mark.parametrize("source", ["report_of_measured", "measured_trace_report"])
def test_ranks_that_cannot_be_compared_are_not_healthy(request, monkeypatch, source, name):
    monkeypatch.setattr(judge_job, name, failing())

    report = request.getfixturevalue(source)()

    internal_error(report)
    assert report["verdict"]["state"] != "healthy"


@pytest.mark.slow
def test_without_knowing_which_rank_to_show_the_lowest_is_shown(tmp_path, monkeypatch):
    # All wait for rank 1, which would be shown.
    folder = make_job(tmp_path, [5.0, 12.0])
    assert analyze([folder])["run"]["rank"] == 1
    monkeypatch.setattr(judge_job, "first_shown", failing())

    report = analyze([folder])

    internal_error(report)
    assert report["run"]["rank"] == 0


def test_the_log_of_a_fault_lies_in_the_recording_and_is_private(report_of, healthy, monkeypatch):
    monkeypatch.setattr(recording_measure, "find_saves", failing())
    monkeypatch.setattr("sys.argv", ["slowstep", "analyze", "--password", "hunter2"])

    row = internal_error(report_of())

    log = healthy[0] / LOG
    assert str(log) in row["remedy"]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text(encoding="utf-8")
    assert "ZeroDivisionError: made to fail" in text
    assert "Traceback" in text
    assert "hunter2" not in text


def test_what_slowstep_raises_on_purpose_is_no_fault(report_of, monkeypatch):
    monkeypatch.setattr(recording_analyses, "find_steps", failing(NothingRecorded))
    with pytest.raises(NothingRecorded):
        report_of()


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A small trace of a training on a device, and what is read of it."""
    events = []
    for number in range(6):
        at = 1000 * number
        events += [
            event(f"ProfilerStep#{number}", at, 1000, cat="user_annotation"),
            event("aten::linear", at + 10, 100, args={"Input Dims": [[4, 8], [8, 8]], "Input type": ["float", "float"]}),
            launch(at + 20, 2 * number + 1),
            kernel(at + 40, 460, 2 * number + 1, name=BF16),
            event("autograd::engine::evaluate_function: MmBackward0", at + 300, 100, tid=101),
            launch(at + 320, 2 * number + 2, tid=101),
            kernel(at + 500, 540, 2 * number + 2, name=BF16),
            event("Optimizer.step#SGD.step", at + 500, 200, cat="user_annotation"),
        ]
    path = written(tmp_path_factory.mktemp("isolation"), events)
    timeline = KINETO.read(path)
    return path, timeline, trace_measure.measure_trace(timeline).settle()


def test_the_made_trace_is_healthy_where_nothing_fails(trace_report):
    assert trace_report()["verdict"]["state"] == "healthy"


@pytest.fixture
def trace_report(trace, monkeypatch):
    path, timeline, _ = trace
    monkeypatch.setattr(traces, "read_cached", lambda *_: timeline)
    return lambda: analyze([path])


@pytest.fixture
def measured_trace_report(trace_report, trace, monkeypatch):
    """The same of what was measured before."""
    monkeypatch.setattr(traces, "measure_trace", lambda *_, **__: trace[2])
    return trace_report


@pytest.mark.parametrize("name", few(analyses_of(trace_measure, "measure_trace"), every=16, is_sweep=True))
def test_an_analysis_of_a_trace_that_fails_leaves_a_report(trace_report, monkeypatch, name):
    monkeypatch.setattr(trace_measure, name, failing())

    report = trace_report()

    internal_error(report)
    assert report["verdict"]["state"] == "undetermined"


@pytest.mark.parametrize("name", few(judging(trace_measure.MAKERS), every=16, is_sweep=True))
def test_a_rule_of_traces_that_fails_is_not_judged(measured_trace_report, monkeypatch, name):
    rules = law.rules()
    monkeypatch.setattr(engine, "rules", lambda: rules | {name: replace(rules[name], judge=failing())})

    report = measured_trace_report()

    assert internal_error(report)["count"] == 1
    assert next(row["code"] for row in report["not_judged"] if row["rule"] == name) == "internal-error"


@pytest.mark.parametrize("name", ["traced_steps", "_doubts"])
def test_what_is_kept_of_a_trace_and_cannot_be_made_leaves_its_report(measured_trace_report, monkeypatch, name):
    monkeypatch.setattr(traces, name, failing())
    internal_error(measured_trace_report())


def test_a_trace_that_fails_leaves_those_of_the_other_ranks(trace, tmp_path, monkeypatch):
    text = trace[0].read_bytes()
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_bytes(text)
    whole = traces._diagnose
    monkeypatch.setattr(traces, "without_copies", lambda found: (list(found), []))
    monkeypatch.setattr(traces, "_diagnose", lambda found, *more: failing()() if "rank0" in found.path.name else whole(found, *more))

    report = analyze([tmp_path])

    internal_error(report)
    assert report["run"]["name"] == "rank1.json"


def test_a_fault_is_the_result_of_all_that_needs_it_and_counted_once():
    attempt = Attempts()

    first = attempt(failing())
    second = attempt(lambda value: value + 1, first)
    third = attempt(lambda: first.anything)

    assert isinstance(first, Fault)
    assert first is second is third
    assert attempt.faults == [first]
    with pytest.raises(Faulty):
        bool(first)
    with pytest.raises(Faulty):
        Results({"a": first})["a"]
    assert dict(Results({"a": first, "b": 1})) == {"b": 1}


def test_what_ends_the_process_is_no_fault():
    for error in (KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            Attempts()(failing(error))


def test_a_panic_of_polars_is_a_fault_though_it_is_no_exception():
    class PanicException(BaseException):
        pass

    assert isinstance(Attempts()(failing(PanicException)), Fault)


def test_what_needs_a_fault_tells_its_cause():
    attempt = Attempts()
    fault = attempt(failing())
    with pytest.raises(Faulty) as raised:
        fault.anything()
    assert raised.value.__cause__ is fault.error
