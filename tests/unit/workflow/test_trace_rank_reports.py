"""Reports of folders with the traces of several ranks, of which one may be late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kineto_files import event, kernel, launch, written
from slowstep.document.validity import validate
from slowstep.report.terminal import render
from slowstep.sources._source import PLAIN
from slowstep.workflow.analyze import analyze, examine
from slowstep.workflow.export import export, exporters
from slowstep.workflow.traces.trace_request import TraceRequest

pytestmark = pytest.mark.usefixtures("traces_measured_once")
MATMUL = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
EXPORT = Path(__file__).parents[2] / "data/nsys/h100_two_processes/trace.sqlite"


def traces(
    folder: Path,
    *own_ms: float | Sequence[float],
    sent_ms: float = 2.0,
    size: int | None = None,
    first: Sequence[int] = (),
    clocks_s: Sequence[float] = (),
    name: str = "rank",
) -> Path:
    """One trace per rank: in each step its kernel, then an all-reduce until the last rank has come and all have sent.

    `first` are the numbers of the ranks' first steps, `clocks_s` what their clocks say when they begin, seconds since 1970.
    """
    folder.mkdir(exist_ok=True)
    rows = [[own] * 6 if isinstance(own, int | float) else list(own) for own in own_ms]
    for rank, row in enumerate(rows):
        events: list[dict[str, Any]] = []
        at = 1000.0
        for k, own in enumerate(row):
            waited = max(other[k] for other in rows) - own + sent_ms
            number = 2 * k + 1
            events += [
                event("autograd::engine::evaluate_function: MmBackward0", at, 20),
                launch(at + 1, number),
                kernel(at + 10, own * 1000, number, name=MATMUL),
                launch(at + 25, number + 1),
                kernel(at + 10 + own * 1000, waited * 1000, number + 1, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL", tid=20),
            ]
            length = 10 + (own + waited) * 1000
            synchronized = {"name": "cudaDeviceSynchronize", "args": {}}
            events.append(launch(at + 40, 0) | synchronized | {"dur": length - 40})
            start = first[rank] if first else 5
            events.append(event(f"ProfilerStep#{start + k}", at, length, "user_annotation"))
            at += length
        around = {"distributedInfo": {"rank": rank, "world_size": size or len(rows)}}
        if clocks_s:
            around["baseTimeNanoseconds"] = round(clocks_s[rank] * 1e9)
        written(folder, sorted(events, key=lambda e: e["ts"]), f"{name}{rank}.json", **around)
    return folder


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of two ranks, the second of which is late. Nothing is written beside them."""
    return traces(tmp_path_factory.mktemp("late"), 36.5, 58.1)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, by clocks that differ by an hour."""
    return traces(tmp_path_factory.mktemp("apart"), 36.5, 58.1, clocks_s=(1.7e9, 1.7e9 + 3600))


def verdict(report: dict[str, Any]) -> tuple[str, str | None]:
    return report["verdict"]["state"], report["verdict"]["rule"]


def test_a_job_with_a_late_rank_is_shown_by_that_rank_and_is_not_healthy(late: Path) -> None:
    report = analyze([late])

    validate(report)
    assert report["run"]["rank"] == 1
    assert verdict(report) == ("undetermined", None)
    assert "58.1 ms per step, that of rank 0 36.5 ms" in report["verdict"]["summary"]
    assert "1.6x at most" in report["verdict"]["summary"]


def health(report: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["remedy"] for row in report["health"]}


@pytest.mark.slow
def test_ranks_of_the_same_steps_are_one_job_though_their_clocks_differ_and_that_is_said(apart: Path, tmp_path: Path) -> None:
    report = analyze([apart])

    validate(report)
    assert report["run"]["rank"] == 1
    assert verdict(report) == ("undetermined", None)
    assert "begin 1.0 h apart" in health(report)["clocks-of-ranks-differ"]
    assert not {"unrelated-traces", "missing-ranks"} & set(health(report))
    together = analyze([traces(tmp_path, 36.5, 58.1, clocks_s=(1.7e9, 1.7e9 + 60))])
    assert "clocks-of-ranks-differ" not in health(together)


@pytest.mark.slow
def test_ranks_whose_clocks_differ_are_of_other_jobs_in_other_steps_or_with_a_rank_twice(apart: Path, tmp_path: Path) -> None:
    other_steps = analyze([traces(tmp_path / "steps", 36.5, 58.1, clocks_s=(1.7e9, 1.7e9 + 3600), first=(5, 105))])
    assert "unrelated-traces" in health(other_steps)

    twice = analyze([apart, traces(tmp_path / "twice", 36.5, 58.1, clocks_s=(1.7e9 + 7200, 1.7e9 + 10800), name="again")])
    assert "unrelated-traces" in health(twice)
    assert "clocks-of-ranks-differ" not in health(twice)


def test_what_is_exported_of_a_rank_is_what_its_report_found_among_the_others(late: Path) -> None:
    alone, among = examine([late / "rank0.json"]), examine([late], rank=0)

    assert {finding.stage for finding in alone.findings} - {finding.stage for finding in among.findings} == {"gradient_sharing"}
    assert [finding.rule for finding in among.findings] == [row["rule"] for row in among.report["findings"]]


def test_a_rank_that_waits_for_a_late_one_is_not_blamed_for_its_collectives(late: Path) -> None:
    report = analyze([late], rank=0)

    validate(report)
    assert verdict(report) == ("undetermined", None)
    assert report["verdict"]["code"] == "waits-for-rank"
    assert "exposed-communication" not in {row["rule"] for row in report["findings"]}
    assert report["run"]["next_command"] == f"slowstep analyze {late} --rank 1"
    assert [row["state"] for row in report["run"]["rank_rows"]] == ["undetermined", "undetermined"]
    assert "rank 1 sets the pace of the job" in " ".join(render(report, width=80, color=False).split())


def test_equal_ranks_are_blamed_for_the_collectives_that_all_of_them_wait_for(tmp_path: Path) -> None:
    report = analyze([traces(tmp_path, 40.0, 40.0, sent_ms=30.0)])
    alone = analyze([tmp_path / "rank0.json"])

    assert report["run"]["rank"] == 0
    assert report["verdict"]["stage"] == alone["verdict"]["stage"]
    assert report["findings"][0]["gain"]["predicted"] == alone["findings"][0]["gain"]["predicted"]
    assert report["verdict"]["code"] != "waits-for-rank"


@pytest.mark.slow
def test_equal_ranks_that_send_little_are_healthy(tmp_path: Path) -> None:
    assert verdict(analyze([traces(tmp_path, 40.0, 41.0, sent_ms=1.0)])) == ("healthy", None)


@pytest.mark.slow
def test_two_of_many_ranks_are_held_against_each_other_and_not_against_the_job(tmp_path: Path) -> None:
    report = analyze([traces(tmp_path, 36.5, 58.1, size=128)])

    assert "of the 2 of 128 ranks that could be compared, this rank is the last" in report["verdict"]["summary"]
    assert "missing-ranks" in {row["name"] for row in report["health"]}


def test_ranks_traced_in_different_steps_are_not_held_against_each_other(tmp_path: Path) -> None:
    report = analyze([traces(tmp_path, 36.5, 58.1, first=(5, 50))], rank=1)

    assert verdict(report) == ("healthy", None)
    assert any("no two steps that all traces hold" in note for note in report["run"]["notes"])


@pytest.mark.slow
def test_of_one_chosen_step_nothing_is_said_of_the_steps_that_the_traces_hold(late: Path) -> None:
    report = analyze([late], asked=TraceRequest(step="slowest"))

    assert not any("whether a rank is late" in note for note in report["run"]["notes"])


def test_trainings_that_share_nothing_are_not_called_ranks_traced_apart(tmp_path: Path) -> None:
    for rank, first in enumerate((5, 50)):
        events = [event(f"ProfilerStep#{first + k}", 1000 * k, 900, "user_annotation") for k in range(3)]
        updates = [event("Optimizer.step#SGD.step", 1000 * k + 10, 500) for k in range(3)]
        written(tmp_path, [*events, *updates], f"rank{rank}.json")

    assert not any("whether a rank is late" in note for note in analyze([tmp_path])["run"]["notes"])


@pytest.mark.slow
def test_one_export_of_two_processes_is_a_job_of_two_ranks() -> None:
    reports = [analyze([EXPORT], rank=rank)["run"] for rank in (0, 1)]

    assert [(run["ranks"], run["rank"], run["pid"]) for run in reports] == [(2, 0, 111), (2, 1, 112)]
    assert [row["report"] for row in reports[0]["rank_rows"]] == ["trace.sqlite, process 111", "trace.sqlite, process 112"]


@pytest.mark.slow
def test_the_tables_of_the_chosen_process_are_exported(tmp_path: Path) -> None:
    for rank, device in ((0, 0), (1, 1)):
        examined = examine([EXPORT], rank=rank)
        place = export(exporters()["parquet"], [EXPORT], examined, tmp_path / str(rank), asked=TraceRequest(), how=PLAIN)

        assert pl.read_parquet(place / "trace_devices.parquet")["device"].to_list() == [device]


@pytest.mark.slow
def test_a_rank_in_the_name_of_a_file_with_several_ranks_is_none_of_theirs(tmp_path: Path) -> None:
    trace = tmp_path / "rank5.sqlite"
    trace.write_bytes(EXPORT.read_bytes())

    assert [row["rank"] for row in analyze([trace])["run"]["rank_rows"]] == [0, 1]


@pytest.mark.slow
def test_of_a_large_job_of_which_two_ranks_were_traced_the_table_is_of_those(tmp_path: Path) -> None:
    report = analyze([traces(tmp_path, 40.0, 40.0, size=128)])

    assert report["run"]["missing_ranks"] == list(range(2, 66))
    assert "no trace here" not in render(report, width=80, color=False)
    validate(report)


def test_a_rank_without_a_trace_stands_in_the_table_of_ranks(tmp_path: Path) -> None:
    report = analyze([traces(tmp_path, 40.0, 40.0, size=3)])

    assert any(line.startswith("  2") and line.endswith("no trace here") for line in render(report, width=80, color=False).splitlines())
