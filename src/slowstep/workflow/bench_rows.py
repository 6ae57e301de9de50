"""Rows of the report of `slowstep bench`, each from what was measured."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from slowstep.document.bench import (
    BoundRow,
    CutPipelineRow,
    CutStageRow,
    FigureRow,
    LoaderRow,
    ParallelCallsPointRow,
    ParallelCallsRow,
    PointRow,
    SandboxRow,
    StageRow,
    SweepRow,
    WholeRow,
)
from slowstep.document.run_rows import Run, bare_run
from slowstep.prove.bench.loader_bound import Bound
from slowstep.prove.bench.loader_speed import Point, bend, page_cache
from slowstep.prove.bench.loader_stages import SampleStage
from slowstep.prove.bench.over_starts import over_starts, point_over_starts
from slowstep.prove.bench.overlap import Whole
from slowstep.prove.bench.pipeline_prefixes import ParallelCallsCurve, StageCost, dearest
from slowstep.prove.stats.figures import Figure
from slowstep.reason_words import sentence
from slowstep.record.system.redact import redact_command
from slowstep.workflow.bench_act import BenchMeasurements
from slowstep.workflow.bench_reasons import of_whole

_MB: Final = 1e6
# From so few blocks that an interval reaches to nothing, or an inverse to everything, that end tells nothing: own choice, under what any
# reading of a loader scatters by.
_NO_END: Final = 1e-3


def words_of(measured: BenchMeasurements) -> list[str]:
    """The command as it was typed, without secrets."""
    return redact_command(list(measured.command.words))


def figure(figure: Figure | None, scale: float = 1.0) -> FigureRow | None:
    """A figure with its interval, times a scale; an end that too few blocks tell is None."""
    if figure is None:
        return None
    # Of few blocks the ends may lie on one side of the value itself.
    value = figure.value * scale
    low, high = min(figure.low * scale, value), max(figure.high * scale, value)
    return {
        "value": value,
        "low": None if low <= _NO_END * value and value > 0 else low,
        "high": None if value <= _NO_END * high and value > 0 else high,
    }


def run_row(measured: BenchMeasurements, description: dict[str, Any], cores: float | None, *, names_place: bool) -> Run:
    """What was run."""
    began = datetime.datetime.now().astimezone() - datetime.timedelta(seconds=measured.duration_s)
    size = description.get("batch_size")
    folder = None if measured.left_nothing or not names_place else measured.place.get("folder")
    return bare_run(
        name=measured.command.stem,
        command=words_of(measured),
        recorded_steps=measured.updates,
        batch_size=size,
        batch_size_from=None if size is None else "the loader",
        started=began.isoformat(timespec="seconds"),
        duration_s=measured.duration_s,
        startup_s=measured.startup_s,
        cores=cores,
        **({} if folder is None else {"recording": folder}),
    )


def sandbox_row(place: dict[str, Any]) -> SandboxRow:
    """Where it ran."""
    return {"kind": place["kind"], "claims": place["claims"], "warnings": list(place["warnings"]), "write_ratio": None}


def loader_row(point: Point, description: dict[str, Any], first: dict[str, Any], *, is_remote: bool, waiting: float = 1.0) -> LoaderRow:
    """The loader alone. `is_remote`: whether it waits for the network, or was seen to use it; else what is received is others'.
    `waiting`: how many times as fast it may be on a quiet machine.
    """
    state, share = page_cache(first)
    alone = point_over_starts(point, waiting)

    def counted(name: str) -> FigureRow | None:
        rate = point.per_s(name)
        return None if rate is None else figure(over_starts(rate, waiting=waiting), 1 / _MB)

    return {
        "workers": None if "stages" in description else point.workers,
        "prefetch_factor": description["prefetch_factor"],
        "batch_size": description["batch_size"],
        "dataset": description["dataset"],
        "dataset_length": description["dataset_length"],
        "stream": description["stream"],
        "samples_per_s": figure(alone.samples_per_s),
        "batches_per_s": figure(alone.batches_per_s),
        "mb_per_s": figure(alone.bytes_per_s, 1 / _MB),
        "read_mb_per_s": counted("read_bytes"),
        "storage_mb_per_s": counted("storage_bytes"),
        "received_mb_per_s": counted("received_bytes") if is_remote else None,
        "batches": point.batches,
        "start_s": point.start_s,
        "epoch_batches": point.epoch_batches,
        "starting": point.starting,
        "page_cache": state,
        "from_storage": share,
        "reason": point.reason,
    }


def stage_rows(rows: Sequence[SampleStage]) -> list[StageRow]:
    """The parts of a sample."""
    whole = sum(row.ms for row in rows)
    return [
        {
            "kind": row.kind,
            "name": row.name,
            "ms_per_sample": row.ms,
            "interval": figure(row.figure),
            "share": row.ms / whole,
            "left_out_ms": row.left_out_ms,
            "note": row.note,
        }
        for row in rows
    ]


def pipeline_row(
    costs: Sequence[StageCost], calls: ParallelCallsCurve | None, *, runs_ahead: bool | None, waiting: float
) -> CutPipelineRow:
    """The stages of a pipeline. `waiting` as in `loader_row`."""
    return {
        "stages": [_pipeline_stage_row(cost, waiting) for cost in costs],
        "dearest": dearest(costs),
        "runs_ahead": runs_ahead,
        "calls": None if calls is None else _calls_row(calls, waiting),
    }


def _calls_row(curve: ParallelCallsCurve, waiting: float) -> ParallelCallsRow:
    rows: list[ParallelCallsPointRow] = [
        {"calls": point.calls, "samples_per_s": _over_starts(point.samples_per_s, waiting), "reason": point.reason}
        for point in curve.points
    ]
    return {"stage": curve.stage, "own": curve.own, "points": rows}


def _over_starts(rate: Figure | None, waiting: float) -> FigureRow | None:
    return None if rate is None else figure(over_starts(rate, waiting=waiting))


def _pipeline_stage_row(cost: StageCost, waiting: float) -> CutStageRow:
    stage, added = cost.stage, cost.added_ms
    in_python = stage.get("python") or []
    # Several in one stage: none of them is the one to be looked at.
    name, file, line = in_python[0] if len(in_python) == 1 else stage.get("function") or (None, None, None)
    return {
        "kind": stage["kind"],
        "then": list(stage["then"]),
        "function": name,
        "place": None if file is None else f"{os.path.basename(file)}:{line}",
        "in_python": bool(in_python),
        "reads_several": bool(stage.get("reads_several")),
        "samples_per_s": _over_starts(cost.samples_per_s, waiting),
        # Below zero an end is as well known as above it.
        "added_ms_per_sample": None
        if added is None
        else {"value": added.value, "low": min(added.low, added.value), "high": max(added.high, added.value)},
        "cpu_ms_per_sample": cost.cpu_ms,
        "added_cpu_ms_per_sample": cost.added_cpu_ms,
        "start_s": cost.start_s,
        "reason": cost.reason,
    }


def sweep_row(points: Sequence[Point], waiting: Callable[[Point], float]) -> SweepRow:
    """The curve. Where it bends goes by this start alone, which all of its points share. `waiting` as in `loader_row`, of a point."""
    rows: list[PointRow] = [
        {
            "workers": point.workers,
            "samples_per_s": figure(point.samples_per_s),
            "batches_per_s": figure(point.batches_per_s),
            "batches": point.batches,
            "reason": point.reason,
        }
        for point in (point_over_starts(point, waiting(point)) for point in points)
    ]
    return {"points": rows, "bend": bend(points)}


def bound_row(bound: Bound) -> BoundRow:
    """The verdict."""
    evidence = [{"name": r.name, "value": r.value, "unit": r.unit, "threshold": r.threshold, "source": r.source} for r in bound.rows]
    return {"kind": bound.kind, "sentence": sentence(bound.reason), "evidence": evidence}  # type: ignore[typeddict-item]


def whole_row(whole: Whole, over: Whole) -> WholeRow:
    """Both halves together: whether they agree goes by this start, which they share; `over` has the intervals for other starts."""
    predicted = figure(over.predicted)
    assert predicted is not None
    return {
        "how": whole.how,
        "binds": whole.binds,
        "cores_bound": whole.cores_bound,
        "predicted": predicted,
        "real": figure(over.real),
        "starting_ms_per_sample": whole.starting_ms,
        "receiving_ms_per_sample": whole.receiving_ms,
        "log_error": whole.log_error,
        "agrees": whole.agrees,
        "sentence": sentence(of_whole(whole)),
    }
