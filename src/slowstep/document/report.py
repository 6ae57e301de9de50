"""The report as plain data: the types of report.json, `slowstep/report/1`. Terminal and JSON are drawn from the same dict."""

from __future__ import annotations

from typing import Final, NotRequired, TypedDict

from slowstep.document.bench import BenchRow
from slowstep.document.experiment_rows import ExperimentRow
from slowstep.document.finding_rows import FindingRow, HealthRow, Next, NotJudgedRow, VerdictRow
from slowstep.document.ledger_rows import LedgerRow
from slowstep.document.loader_setting_rows import LoaderSettingRow
from slowstep.document.pipeline import PipelineRow
from slowstep.document.run_rows import Run
from slowstep.document.throughput_rows import Overhead, Throughput

SCHEMA: Final = "slowstep/report/1"


class Report(TypedDict):
    """report.json."""

    schema: str
    run: Run
    throughput: Throughput
    ledger: list[LedgerRow]
    verdict: VerdictRow
    findings: list[FindingRow]
    next: Next | None
    not_judged: list[NotJudgedRow]
    health: list[HealthRow]
    overhead: Overhead
    experiments: list[ExperimentRow]
    pipeline: NotRequired[PipelineRow]
    """What the stages take of an input pipeline that the framework runs in its own threads, where they were looked at."""
    loader_settings: NotRequired[list[LoaderSettingRow]]
    """How the loader was made, beside what the rules said of it, where a recording tells."""
    bench: NotRequired[BenchRow]
    """Where one half of the training was measured alone: most of the rest is unknown then."""
