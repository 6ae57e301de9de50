"""What is exported of a recording is what its report is of."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from made_recordings import Training, make_recording
from slowstep.errors import BadUsage
from slowstep.sources._source import PLAIN
from slowstep.workflow.analyze import analyze, examine
from slowstep.workflow.export import export, exporters
from slowstep.workflow.traces.trace_request import TraceRequest


@pytest.mark.parametrize("warmup", [0, 50])
def test_the_ledger_of_a_recording_has_the_steps_of_its_report(tmp_path, warmup):
    folder = make_recording(tmp_path / "recording", Training(steps=120))
    examined = examine([folder], warmup=warmup)

    export(exporters()["parquet"], [folder], examined, tmp_path / "tables", asked=TraceRequest(), how=PLAIN)

    assert pl.read_parquet(tmp_path / "tables" / "ledger.parquet")["step"].n_unique() == examined.report["run"]["steps"]


def test_a_limit_on_memory_is_refused_for_a_recording(tmp_path):
    folder = make_recording(tmp_path / "recording", Training(steps=40))

    with pytest.raises(BadUsage, match="--memory is for traces"):
        analyze([folder], how=replace(PLAIN, memory_bytes=1 << 28))
