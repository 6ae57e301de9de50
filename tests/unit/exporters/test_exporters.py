from __future__ import annotations

import gzip
import json
from dataclasses import replace

import polars as pl
import pytest

from made_findings import claiming
from made_measured_traces import made_measured
from made_traces import device, host, made_trace, step
from slowstep.analyses.events.parts import INPUT_WAIT
from slowstep.analyses.events.tables import TRACE_MEASUREMENT_TABLES
from slowstep.errors import UnwritableOutput
from slowstep.exporters import chrome, parquet
from slowstep.exporters._trace_events import OWN_PID

FINDINGS = (claiming(INPUT_WAIT, rule="input-wait", stage="preprocess"),)


@pytest.fixture
def made():
    timeline = made_trace(
        hosts=[host('aten::mm "quoted"', 0, 5), host("cudaLaunchKernel", 1, 2, "runtime", correlation=7)],
        devices=[device("gemm", 6.5, 9, correlation=7)],
        steps=[step(5, 0, 10)],
    )
    gap = {"step": 0, "part": INPUT_WAIT, "start_us": 0, "end_us": 6.5}
    return timeline, made_measured(steps=1, step_ms=0.01, tables={"gaps": [gap]})


def test_the_chrome_trace_holds_the_events_the_steps_the_stages_and_the_findings(tmp_path, made):
    timeline, m = made

    chrome.write(tmp_path / "out.json.gz", timeline, m, {}, FINDINGS)

    events = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["traceEvents"]
    shown = {(event["name"], event["ts"], event["dur"]) for event in events if event["ph"] == "X"}
    assert shown == {
        ("step 5", 0.0, 10.0),
        ("preprocess: waiting for input", 0.0, 6.5),
        ("input-wait", 0.0, 6.5),
        ('aten::mm "quoted"', 0.0, 5.0),
        ("cudaLaunchKernel", 1.0, 1.0),
        ("compute: kernels", 6.5, 2.5),
        ("gemm", 6.5, 2.5),
    }
    rows = {event["args"]["name"] for event in events if event["ph"] == "M" and event["pid"] == OWN_PID and "name" in event["args"]}
    assert {"steps", "stages", "finding 1: input-wait"} <= rows


def test_a_chrome_trace_is_packed_where_its_name_says_so(tmp_path, made):
    timeline, m = made

    for name in ("out.json", "out.json.gz"):
        chrome.write(tmp_path / name, timeline, m, {}, FINDINGS)

    plain = (tmp_path / "out.json").read_bytes()
    assert json.loads(plain)["traceEvents"]
    assert gzip.decompress((tmp_path / "out.json.gz").read_bytes()) == plain


def test_streams_have_names(tmp_path, made):
    timeline, m = made

    chrome.write(tmp_path / "out.json.gz", timeline, m, {}, FINDINGS)

    events = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {names[event["pid"], event["tid"]] for event in events if event["name"] == "gemm"} == {"stream 7"}


def test_every_table_is_a_parquet_file(tmp_path, made):
    timeline, m = made

    parquet.write(tmp_path / "out", timeline, m, {}, FINDINGS)

    assert pl.read_parquet(tmp_path / "out" / "gaps.parquet").rows(named=True)[0]["kind"] == "input_wait"
    assert pl.read_parquet(tmp_path / "out" / "device_events.parquet")["name"].to_list() == ["gemm"]
    assert len(list((tmp_path / "out").iterdir())) == len(TRACE_MEASUREMENT_TABLES) + 7


def test_nothing_is_written_over(tmp_path, made):
    timeline, m = made
    (tmp_path / "mine").write_text("precious")

    for write in (
        lambda: chrome.write(tmp_path / "mine", timeline, m, {}, FINDINGS),
        lambda: parquet.write(tmp_path / "mine", timeline, m, {}, FINDINGS),
    ):
        with pytest.raises(UnwritableOutput, match="exists already"):
            write()
    assert (tmp_path / "mine").read_text() == "precious"


def test_threads_are_called_by_the_number_that_their_events_have(tmp_path, made):
    timeline, m = made
    threads = timeline.table("trace_threads").with_columns(pl.lit(0, pl.Int64).alias("tid"), (pl.col("thread") + 5).alias("thread"))
    hosts = timeline.table("host_events").with_columns(pl.col("thread") + 5)
    timeline = replace(timeline, tables={**timeline.tables, "trace_threads": threads, "host_events": hosts})

    chrome.write(tmp_path / "out.json.gz", timeline, m, {}, FINDINGS)

    events = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["traceEvents"]
    on_host = {event["tid"] for event in events if event.get("cat") == "operator"}
    named = {event["tid"] for event in events if event["name"] == "thread_name" and event["pid"] < OWN_PID}
    assert on_host == named == {0}
