from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import polars as pl
import pytest

from made_exports import NAMES, call, kernel, made_export, named
from made_recordings import Training, make_recording
from slowstep.report.terminal import render
from slowstep.sources._source import HowRead
from slowstep.workflow.analyze import analyze, examine
from slowstep.workflow.export import export, exporters
from slowstep.workflow.traces.trace_memory import EVENT_BYTES, FLOOR_BYTES, events_within
from slowstep.workflow.traces.trace_request import TraceRequest


def trace(path, operators: int, *, begin_us: float = 0.0, **around) -> None:
    """A trace of so many operators, which tells no rank unless it is said around them."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": begin_us + 100.0 * at, "dur": 50.0, "args": {}}
        for at in range(operators)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, **around, "traceEvents": events}))


def health(report) -> dict[str, tuple[int, str]]:
    return {row["name"]: (row["count"], row["remedy"]) for row in report["health"]}


def ranks(report) -> dict[int, str]:
    return {row["rank"]: row["report"] for row in report["run"]["rank_rows"]}


@pytest.mark.slow
def test_a_trace_without_a_rank_gets_a_number_that_no_other_has(tmp_path):
    for name in ("a_rank1.json", "b.json", "c_rank0.json", "d.json"):
        trace(tmp_path / name, 9)

    report = analyze([tmp_path])

    assert ranks(report) == {0: "c_rank0.json", 1: "a_rank1.json", 2: "b.json", 3: "d.json"}
    assert "duplicate-ranks" not in {row["name"] for row in report["health"]}


@pytest.mark.slow
def test_of_two_traces_of_a_rank_the_one_with_more_events_is_taken(tmp_path):
    for name, operators in (("old_rank1.json", 5), ("new_rank1.json", 9), ("rank0.json", 9)):
        trace(tmp_path / name, operators)

    report = analyze([tmp_path])

    assert ranks(report) == {0: "rank0.json", 1: "new_rank1.json"}
    count, said = health(report)["duplicate-ranks"]
    assert count == 1
    assert "new_rank1.json, and not old_rank1.json" in said


def test_a_trace_and_its_packed_copy_are_one(tmp_path):
    trace(tmp_path / "a b.json", 9)
    (tmp_path / "a b.json.gz").write_bytes(gzip.compress((tmp_path / "a b.json").read_bytes()))

    for given in ([tmp_path], [tmp_path / "a b.json.gz", tmp_path / "a b.json"]):
        report = analyze(given)

        assert report["run"]["ranks"] == 1
        assert report["run"]["name"] == "a b.json"
        assert health(report)["duplicate-traces"][0] == 1
        assert "a b.json.gz" in health(report)["duplicate-traces"][1]


@pytest.mark.parametrize("operators", [8, 10])
def test_a_packed_trace_of_other_content_is_another_one(tmp_path, operators):
    trace(tmp_path / "a.json", 9)
    trace(tmp_path / "b.json", operators)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress((tmp_path / "b.json").read_bytes()))
    (tmp_path / "b.json").unlink()

    report = analyze([tmp_path])

    assert set(ranks(report).values()) == {"a.json", "a.json.gz"}
    assert "duplicate-traces" not in health(report)


def test_two_traces_of_a_rank_of_one_name_are_told_apart_by_their_folders(tmp_path):
    for folder, operators in (("old", 5), ("new", 9)):
        (tmp_path / folder).mkdir()
        trace(tmp_path / folder / "rank0.json", operators)

    said = health(analyze([tmp_path]))["duplicate-ranks"][1]

    assert f"{tmp_path / 'new' / 'rank0.json'}, and not {tmp_path / 'old' / 'rank0.json'}" in said


def on_screen(report) -> str:
    return " ".join(render(report, width=80, color=False).split())


def test_files_that_were_asked_for_and_are_no_traces_are_said_on_the_screen(tmp_path):
    trace(tmp_path / "a.json", 9)
    (tmp_path / "notes.json").write_text('{"a": 1}')

    asked, beside = analyze([tmp_path / "a.json", tmp_path / "notes.json"]), analyze([tmp_path])

    assert "skipped-files: notes.json is in no format that this version reads" in on_screen(asked)
    assert "notes.json" in health(beside)["other-files"][1]
    assert "notes.json" not in on_screen(beside)


def test_files_that_were_asked_for_beside_a_recording_are_said_too(tmp_path):
    folder = make_recording(tmp_path / "run", Training(steps=60))
    (tmp_path / "notes.txt").write_text("hello")

    assert health(analyze([folder, tmp_path / "notes.txt"]))["skipped-files"][0] == 1


def test_a_rank_that_was_cut_off_before_its_events_is_said_on_the_screen(tmp_path):
    trace(tmp_path / "rank0.json", 9)
    (tmp_path / "rank1.json").write_text('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVID')

    said = on_screen(analyze([tmp_path]))

    assert "Data loss unreadable-traces: rank1.json:" in said
    assert "was cut off before the first whole event" in said


@pytest.mark.slow
def test_what_was_lost_of_another_rank_is_said_in_every_report(tmp_path):
    for rank in (0, 1):
        trace(tmp_path / f"rank{rank}.json", 9, **of_job(rank, 2))
    whole = (tmp_path / "rank1.json").read_text()
    (tmp_path / "rank1.json").write_text(whole[: len(whole) * 2 // 3])

    shown, cut = analyze([tmp_path], rank=0), analyze([tmp_path], rank=1)

    assert "losses-of-other-ranks: not all could be read of rank 1 (truncated-file)" in on_screen(shown)
    assert "truncated-file" not in health(shown)
    assert "losses-of-other-ranks" not in health(cut)
    assert "truncated-file" in health(cut)


@pytest.mark.parametrize(
    ("allowed", "said"),
    [(1 << 20, "were held, 1.00 MiB were allowed; 180 MiB are needed for the smallest trace: allow more"), (1 << 40, ""), (None, "")],
)
def test_more_memory_than_was_allowed_is_said_in_the_units_in_which_it_is_given(tmp_path, allowed, said):
    trace(tmp_path / "trace.json", 9)

    count, remedy = health(analyze([tmp_path / "trace.json"], how=HowRead(memory_bytes=allowed))).get("memory-limit-exceeded", (0, ""))

    assert (count == 1) == bool(said)
    assert remedy.endswith(said)
    assert not said or re.match(r"[\d.,]+ [MG]iB were held", remedy)


def test_of_a_limit_what_the_program_itself_takes_is_not_left_for_events():
    assert events_within(None) is None
    assert events_within(1 << 20) == events_within(FLOOR_BYTES) == 0
    assert events_within(FLOOR_BYTES + 10 * EVENT_BYTES) == 10


NOON_US = 1_700_000_000_000_000.0
HOUR_US = 3_600_000_000.0


def of_job(rank: int, size: int) -> dict:
    return {"distributedInfo": {"rank": rank, "world_size": size}}


def test_traces_of_another_number_of_ranks_are_another_jobs(tmp_path):
    for rank in (0, 1):
        trace(tmp_path / f"large_{rank}.json", 9, **of_job(rank, 8))
    trace(tmp_path / "alone.json", 9, **of_job(0, 2))

    report = analyze([tmp_path])

    assert ranks(report) == {0: "large_0.json", 1: "large_1.json"}
    assert "duplicate-ranks" not in health(report)
    assert health(report)["missing-ranks"][0] == 6
    count, said = health(report)["unrelated-traces"]
    assert count == 1
    assert "alone.json (undetermined)" in said


def test_traces_taken_at_the_same_time_are_one_jobs_and_one_of_another_day_is_not(tmp_path):
    trace(tmp_path / "a.json", 9, begin_us=NOON_US - 24 * HOUR_US)
    trace(tmp_path / "b.json", 9, begin_us=NOON_US)
    trace(tmp_path / "c.json", 9, begin_us=200_000_000.0, baseTimeNanoseconds=int(NOON_US * 1e3))

    report = analyze([tmp_path])

    assert ranks(report) == {0: "b.json", 1: "c.json"}
    assert "a.json" in health(report)["unrelated-traces"][1]


def test_of_traces_that_are_all_unrelated_the_first_is_shown(tmp_path):
    trace(tmp_path / "a.json", 9, begin_us=NOON_US)
    trace(tmp_path / "b.json", 9, begin_us=NOON_US + HOUR_US)
    trace(tmp_path / "c.json", 9, begin_us=NOON_US + 2 * HOUR_US)

    report = analyze([tmp_path])

    assert report["run"]["name"] == "a.json"
    assert report["run"]["ranks"] == 1
    assert "rank_rows" not in report["run"]
    assert health(report)["unrelated-traces"][0] == 2


@pytest.mark.slow
def test_a_process_without_steps_is_not_shown_or_exported_in_place_of_the_one_that_trained(tmp_path):
    at = [1_000_000 * step + 1_000 for step in range(4)]
    stray = kernel(at[0] + 700_000, at[0] + 700_100, correlationId=99, globalPid=1 << 48 | 5 << 24)
    tables = {
        "StringIds": NAMES,
        "CUPTI_ACTIVITY_KIND_KERNEL": [*(kernel(t + 2_000, t + 400_000, correlationId=t) for t in at), stray],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(t + 300, t + 900, correlationId=t) for t in at],
        "NVTX_EVENTS": [named(t, t + 950_000, f"step {step}") for step, t in enumerate(at)],
    }
    path = made_export(tmp_path / "trace.sqlite", tables)

    examined = examine([path])
    report = examined.report
    place = export(exporters()["parquet"], [path], examined, tmp_path / "tables", asked=TraceRequest(), how=HowRead())

    assert (report["run"]["pid"], report["run"]["ranks"]) == (77, 1)
    assert report["run"]["steps"] > 1
    assert pl.read_parquet(place / "device_events.parquet").height == len(at)


def test_without_a_clock_that_is_shared_other_numbers_of_steps_are_another_jobs(tmp_path):
    marked = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": 900.0 * n, "dur": 800.0}
        for n in range(5)
    ]
    trace(tmp_path / "a.json", 9)
    trace(tmp_path / "b.json", 9)
    (tmp_path / "c.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": marked}))

    report = analyze([tmp_path])

    assert ranks(report) == {0: "a.json", 1: "b.json"}
    assert "c.json" in health(report)["unrelated-traces"][1]


def test_after_an_inference_the_next_command_trains_nothing(tmp_path):
    trace(tmp_path / "few.json", 1)
    vit = next((Path(__file__).parents[3] / "data/kineto").glob("*inference*/*.gz"))

    nothing, found = analyze([tmp_path / "few.json"]), analyze([vit])

    assert found["verdict"]["code"] == "about-what-ran"
    assert found["run"]["next_command"] == f"slowstep explain {found['findings'][0]['rule']}"
    assert nothing["verdict"]["code"] == "inference"
    assert nothing["findings"] == []
    assert "Next" not in on_screen(nothing)


XPLANES = Path(__file__).parents[3] / "data/xplane"


def test_keras_training_is_seen_by_its_gradients_and_gets_its_verdict():
    # Its data set sleeps 4 ms for each of a batch's four samples (made_by.py).
    verdict = analyze([XPLANES / "keras_fit/trace.xplane.pb"])["verdict"]

    assert (verdict["state"], verdict["rule"], verdict["stage"]) == ("bottleneck", "input-wait", "preprocess")


@pytest.mark.parametrize(
    ("trace", "said"),
    [("jax_steps", "jax.profiler.TraceAnnotation"), ("mi300_jax", "no backward pass: it is of an inference")],
)
def test_a_trace_of_jax_tells_training_from_inference(trace, said):
    summary = analyze([XPLANES / trace / "trace.xplane.pb"])["verdict"]["summary"]

    assert said in summary
    assert "whether it trains" not in summary


def test_kernels_without_launches_and_launches_without_kernels_are_counted_and_not_their_share(tmp_path):
    events = []
    for at in range(40):
        about = {"ts": 100.0 * at, "dur": 20.0, "ph": "X", "args": {"correlation": at + 1, "device": 0, "stream": 7}}
        if at < 30:
            events.append(about | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1})
        if at >= 12:
            events.append(about | {"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7})
    (tmp_path / "a.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))

    said = health(analyze([tmp_path / "a.json"]))

    assert said["kernels-without-launch"] == (10, "the launches of 36 % of the kernels are not in the trace: trace the host too")
    assert said["launches-without-kernel"] == (12, "the kernels of 40 % of the launches were dropped, or ran after the trace ended")


def test_without_a_whole_step_no_stage_has_a_share_and_none_is_the_largest(tmp_path):
    about = {"ph": "X", "pid": 1, "tid": 1, "args": {"correlation": 3}}
    events = [
        about | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 100.0, "dur": 5.0},
        about | {"cat": "kernel", "name": "gemm", "ts": 110.0, "dur": 50.0},
        about | {"cat": "user_annotation", "name": "ProfilerStep#3", "ts": 90.0, "dur": 100.0},
    ]
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    (tmp_path / "cut.json").write_text(text[:-2])

    report = analyze([tmp_path / "cut.json"])

    assert {row["share"] for row in report["ledger"]} == {None}
    assert (report["verdict"]["state"], report["verdict"]["stage"]) == ("undetermined", None)
    assert "no step is left" in " ".join(report["run"]["notes"])
    assert "most time" not in render(report, width=80, color=False)


def test_a_step_whose_mark_is_missing_is_said_in_health(tmp_path):
    events = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 1, "tid": 1, "ts": 100.0 * n, "dur": 99.0, "args": {}}
        for n in (3, 5, 6)
    ]
    (tmp_path / "a.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))

    report = analyze([tmp_path / "a.json"])

    assert health(report)["missing-step-marks"][0] == 1
