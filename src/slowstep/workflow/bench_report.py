"""The report of `slowstep bench` out of what was measured: rows, sentences, and the next useful command."""

from __future__ import annotations

from typing import Final

from slowstep.diagnosis.law import Diagnosis
from slowstep.document.bench import BenchRow
from slowstep.document.build import build
from slowstep.document.ledger_rows import unseen_row
from slowstep.document.next_step import NextStep
from slowstep.document.report import Report
from slowstep.document.sections import Sections
from slowstep.document.throughput_rows import NO_THROUGHPUT
from slowstep.findings import Verdict
from slowstep.reason_words import sentence
from slowstep.reasons import Wording
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.workflow.bench_act import BenchMeasurements
from slowstep.workflow.bench_found import BenchFound
from slowstep.workflow.bench_request import BenchRequest
from slowstep.workflow.bench_rows import (
    bound_row,
    loader_row,
    pipeline_row,
    run_row,
    sandbox_row,
    stage_rows,
    sweep_row,
    whole_row,
    words_of,
)
from slowstep.workflow.next_command.after_all import after_half
from slowstep.workflow.next_command.after_bench import BenchLacks, after_bench

_ONE_HALF: Final = Wording("one-half-measured", "one half of the training was measured alone")
_OPEN: Final = Verdict(state="undetermined", stage=None, healthy=None, rule=None, reason=_ONE_HALF())


def make_report(measured: BenchMeasurements, asked: BenchRequest, *, names_place: bool = True) -> Report:
    """All that is known, null where it is not; without `names_place` its recording is not named, as that does not keep it."""
    found = BenchFound(measured)
    following = _next(found, measured, asked)
    run = run_row(measured, found.description, found.cores, names_place=names_place)
    run["notes"] = [sentence(note) for note in found.notes()]
    sections = Sections(
        run=run,
        throughput=NO_THROUGHPUT | {"samples_per_s": None if found.as_is is None else found.as_is.value},
        ledger=[unseen_row(stage) for stage in (*STAGES, UNATTRIBUTED)],
        diagnosis=Diagnosis(findings=(), not_judged=(), verdict=_OPEN, next=None),
        health=(),
        overhead={"us_per_step": None, "share": None},
    )
    return build(sections, next_step=following, bench=_section(found, measured, asked, following))


def _section(found: BenchFound, measured: BenchMeasurements, asked: BenchRequest, following: NextStep) -> BenchRow:
    is_data = asked.what == "data"
    point, compute = found.point, found.compute
    whole, printed = found.whole(), found.whole_over_starts()
    bound = found.bound() if is_data else None
    is_remote = (bound is not None and bound.kind == "network") or (point is not None and point.has_connections)
    row: BenchRow = {
        "half": asked.what,
        "ended_by": str(measured.ended_by),
        "reason": None if measured.reason is None else sentence(measured.reason),
        "foreign_share": None if measured.load is None else measured.load.foreign_share,
        "sandbox": sandbox_row(measured.place),
        "loader": None
        if point is None
        else loader_row(point, found.description, found.drains[0], is_remote=is_remote, waiting=found.waiting(point)),
        "stages": stage_rows(found.stages() if is_data else ()),
        "stages_reason": found.stages_reason() if is_data else None,
        "sweep": sweep_row(found.points, found.waiting) if is_data and found.points else None,
        "bound": None if bound is None else bound_row(bound),
        "compute": compute,
        "whole": None if whole is None or printed is None else whole_row(whole, printed),
        "next_because": following.why or "",
    }
    if is_data and point is not None and (costs := found.stage_costs()):
        row["pipeline"] = pipeline_row(costs, found.calls_curve(costs), runs_ahead=found.runs_ahead, waiting=found.waiting(point))
    return row


def _next(found: BenchFound, measured: BenchMeasurements, asked: BenchRequest) -> NextStep:
    own = after_bench(
        asked,
        words_of(measured),
        point=found.point,
        whole=found.whole(),
        wholes=found.wholes(),
        unsure=found.wholes_of_next_start(),
        is_busy=found.is_busy,
        ended_by=measured.ended_by,
        failed=measured.ending is not None and bool(measured.ending.exit_code),
        nothing_trained=measured.came_untrained_to_its_end,
        lacks=BenchLacks(
            others=found.lacks_others,
            overlap=found.lacks_overlap and found.cached is not None,
            samples=found.lacks_samples,
            steps=found.lacks_steps,
            cached=found.refuses_cached,
        ),
    )
    return after_half(own)
