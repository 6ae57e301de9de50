from __future__ import annotations

import json
from collections import Counter

import polars as pl
import pytest

from made_recordings import Training, make_recording
from slowstep.errors import UnwritableOutput
from slowstep.sources._source import PLAIN
from slowstep.workflow.analyze import analyze, examine
from slowstep.workflow.export import export, exporters
from slowstep.workflow.traces.trace_request import TraceRequest


@pytest.fixture
def recording(tmp_path):
    return make_recording(tmp_path / "r", Training(steps=60, workers=1))


def exported(kind, recording, target):
    return export(exporters()[kind], [recording], examine([recording]), target, asked=TraceRequest(), how=PLAIN)


def test_the_trace_of_a_recording_shows_its_steps_and_what_its_threads_did(tmp_path, recording):
    place = exported("chrome", recording, tmp_path / "out.json")

    events = json.loads(place.read_bytes())["traceEvents"]
    seen = Counter(event.get("cat") for event in events)
    steps = analyze([recording])["run"]["steps"]
    assert seen["step"] == steps
    assert seen["updates"] == 60
    assert seen["fetches"] >= 60
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")


def test_the_tables_of_a_recording_hold_a_ledger_that_adds_up_to_each_step(tmp_path, recording):
    place = exported("parquet", recording, tmp_path / "tables")

    steps, ledger = (pl.read_parquet(place / f"{name}.parquet") for name in ("steps", "ledger"))
    sums = ledger.group_by("step").agg(pl.col("ns").sum()).sort("step")["ns"]
    assert steps.height > 0
    assert sums.to_list() == pytest.approx((steps["end_ns"] - steps["start_ns"]).to_list())
    assert {"backward", "transport"} <= set(ledger["kind"])
    assert pl.read_parquet(place / "updates.parquet").height == 60


@pytest.mark.parametrize("kind", ["chrome", "parquet"])
def test_an_export_is_not_written_over_what_is_there(tmp_path, recording, kind):
    (tmp_path / "there").mkdir()

    with pytest.raises(UnwritableOutput):
        exported(kind, recording, tmp_path / "there")
