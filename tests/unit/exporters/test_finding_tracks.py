"""A finding's track in the exported trace shows when what it is about happened."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from few import few
from kineto_files import CASES, NAMES
from made_findings import claiming
from made_measured_traces import made_measured
from made_parts import us_of
from made_traces import device, host, made_trace, step
from slowstep.analyses.events.parts import COLLECTIVES, COLUMNS, COPIES, FORWARD, KERNELS, LAUNCH, piece
from slowstep.analyses.ledger.instants import find_stretches
from slowstep.analyses.measure_trace import measure_trace
from slowstep.diagnosis.engine import diagnose
from slowstep.exporters._finding_tracks import finding_track
from slowstep.exporters._measured_tables import measured_tables
from slowstep.exporters._trace_events import OWN_PID
from slowstep.exporters.chrome import FIRST_FINDING_TID, STAGES_TID, write
from slowstep.findings import Finding
from slowstep.parts import Part, PieceKind
from slowstep.sources.kineto import SOURCE
from slowstep.timeline.timeline import Timeline

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
SGEMM = "ampere_sgemm_128x64_tn"


def made() -> Timeline:
    """Two steps, in us: 0 copy 10, 12 gemm 40, 30 collective 60 on another stream, 60 idle, 70 copy back 75, idle to 100."""
    devices, hosts = [], []
    for at in (0, 100):
        hosts += [host("aten::mm", at, at + 8), host("cudaLaunchKernel", at + 1, at + 2, "runtime", correlation=at + 1)]
        hosts += [host("cudaMemcpyAsync", at, at + 0.5, "runtime", correlation=at + 2), host("aten::sort", at + 60, at + 68)]
        devices += [
            device("Memcpy HtoD", at, at + 10, "h2d", correlation=at + 2),
            device(SGEMM, at + 12, at + 40, correlation=at + 1),
            device(ALL_REDUCE, at + 30, at + 60, stream=20),
            device("Memcpy DtoH", at + 70, at + 75, "d2h"),
        ]
    return made_trace(hosts=hosts, devices=devices, steps=[step(5, 0, 100), step(6, 100, 200)])


def track(timeline: Timeline, *claims: Part, operation: str | None = None) -> list[tuple[float, float]]:
    tables = measured_tables(measure_trace(timeline))
    stretches = find_stretches(timeline, tables["steps"], tables["gaps"])
    rows = finding_track(claiming(*claims, operation=operation), stretches, timeline, tables)
    return [(start / 1000, end / 1000) for start, end in rows.iter_rows()]


def test_stretches_divide_the_window_as_the_ledger_does() -> None:
    timeline = made()
    m = measure_trace(timeline)

    stretches = find_stretches(timeline, m.marks.table, m.device.gaps)

    assert (stretches["start_ns"][1:] >= stretches["end_ns"][:-1]).all()
    assert us_of(stretches.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))) == us_of(m.ledger)


@pytest.mark.parametrize(
    ("claim", "instants"),
    [
        (piece(KERNELS, PieceKind.KERNELS, "matmul", "float32"), [(12, 40), (112, 140)]),
        (COLLECTIVES, [(40, 60), (140, 160)]),
        (piece(COPIES["h2d"], PieceKind.TO_DEVICE), [(0, 10), (100, 110)]),
        (COPIES["d2h"], [(70, 75), (170, 175)]),
    ],
    ids=["kernels", "collectives", "to the device", "to the host"],
)
def test_a_track_holds_the_instants_of_what_is_claimed(claim: Part, instants: list[tuple[float, float]]) -> None:
    assert track(made(), claim) == instants


def test_claims_of_one_finding_are_one_track_without_overlap() -> None:
    assert track(made(), piece(KERNELS, PieceKind.KERNELS, "matmul", "float32"), COLLECTIVES) == [(12, 60), (112, 160)]


def test_a_finding_that_claims_no_time_shows_when_what_it_names_ran() -> None:
    assert track(made(), operation="aten::mm") == [(12, 40), (112, 140)]
    assert track(made(), operation="aten::sort") == [(60, 68), (160, 168)]
    assert track(made()) == []


@pytest.mark.parametrize(
    ("claimed", "instants"),
    [
        (LAUNCH, [(0, 30), (100, 130)]),
        (piece(LAUNCH, PieceKind.BETWEEN_STEPS), [(20, 30)]),
        (piece(LAUNCH, PieceKind.INSIDE_STEPS), [(0, 20), (100, 130)]),
        (piece(LAUNCH, PieceKind.ALLOCATOR_CALLS), [(100, 130)]),
        (piece(LAUNCH, PieceKind.HOST_OPERATIONS), [(0, 20)]),
        (piece(LAUNCH, PieceKind.COMPILING), [(10, 30)]),
        (piece(LAUNCH, PieceKind.RULE, "a-rule"), [(0, 30), (100, 130)]),
    ],
)
def test_of_a_part_only_the_claimed_piece_is_shown(claimed: Part, instants: list[tuple[float, float]]) -> None:
    gap = {"step": 0, "part": LAUNCH}
    gaps = [
        gap | {"start_us": 0, "end_us": 20, "operator": "aten::sort"},
        gap | {"start_us": 20, "end_us": 30, "between_steps": True},
        gap | {"start_us": 100, "end_us": 130, "call": "cudaMalloc"},
    ]
    operators = [{"name": "aten::sort", "on_host": True, "host_total_us": 9, "host_self_us": 9}]
    compilations = [{"step": 0, "start_us": 10, "end_us": 50, "name": "compile", "exposed_us": 20}]
    tables = measured_tables(made_measured(tables={"gaps": gaps, "operators": operators, "compilations": compilations}))
    stretches = tables["gaps"].select("start_ns", "end_ns", *COLUMNS)

    rows = finding_track(claiming(claimed), stretches, made_trace(), tables)

    assert [(start / 1000, end / 1000) for start, end in rows.iter_rows()] == instants


def test_a_trace_without_a_device_has_stages_and_tracks_too() -> None:
    hosts = [host(name, at + start, at + start + 40) for at in (0, 100) for name, start in (("aten::mm", 0), ("MmBackward0", 50))]
    timeline = made_trace(hosts=hosts, steps=[step(5, 0, 100), step(6, 100, 200)], vendor=None)

    assert track(timeline, FORWARD) == [(0, 40), (100, 140)]


def shown(folder: Path, timeline: Timeline) -> tuple[tuple[Finding, ...], list[dict[str, Any]]]:
    """The findings of a trace, and the events of the file that is exported of it."""
    m = measure_trace(timeline)
    findings = diagnose(m).findings
    write(folder / "out.json.gz", timeline, m, {}, findings)
    return findings, json.loads(gzip.decompress((folder / "out.json.gz").read_bytes()))["traceEvents"]


@pytest.mark.parametrize("path", few(CASES, every=10, is_sweep=True), ids=NAMES)
def test_no_finding_of_a_real_trace_has_an_empty_track_and_the_stages_fill_the_steps(tmp_path: Path, path: Path) -> None:
    timeline = SOURCE.read(path)

    findings, events = shown(tmp_path, timeline)

    own = [event for event in events if event["ph"] == "X" and event["pid"] == OWN_PID]
    for number, _ in enumerate(findings):
        assert [event for event in own if event["tid"] == FIRST_FINDING_TID + number]
    lengths = {tid: sum(event["dur"] for event in own if event["tid"] == tid) for tid in (1, STAGES_TID)}
    assert lengths[STAGES_TID] == pytest.approx(lengths[1], rel=1e-6)
