"""Of several steps that may be typed next one stands, and which is decided in one place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slowstep.analyses.job.late_rank import RankComparison, Standing
from slowstep.analyses.job.rank_steps import RankPace
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.ledger_rows import unseen_row
from slowstep.document.next_step import NextStep
from slowstep.document.ranks import RankSummary
from slowstep.document.run_rows import bare_run
from slowstep.document.sections import Sections
from slowstep.document.throughput_rows import NO_THROUGHPUT
from slowstep.findings import Verdict
from slowstep.reasons import Wording
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.workflow.next_command.after_all import after_all, after_one

OPEN = Verdict(state="undetermined", stage=None, healthy=None, rule=None, reason=Wording("open", "it is not known")())
OTHER = replace(OPEN, reason=Wording("other", "it is known even less")())
HEALTHY = replace(OPEN, state="healthy", healthy=True)
ALONE, TRIED, BY_ANOTHER = (NextStep(command=f"slowstep {word}") for word in ("alone", "tried", "again"))
LAUNCHER = Path("other")
WAITS = RankComparison(
    standings={
        0: Standing(own_ns=1e6, shared_ns=9e6, waited_ns=9e6, waits=True),
        1: Standing(own_ns=9e6, shared_ns=1e6, waited_ns=0.0, waits=False),
    },
    size=2,
    slowest=1,
    fastest=0,
    gain_at_most=1.5,
    is_one=True,
    steps=50,
    last_in=50,
)


def diagnosis(verdict: Verdict) -> Diagnosis:
    return Diagnosis(findings=(), not_judged=(), verdict=verdict, next=None)


def rank(**more: object) -> RankSummary:
    sections = Sections(
        run=bare_run(name="train"),
        throughput=NO_THROUGHPUT,
        ledger=[unseen_row(stage) for stage in (*STAGES, UNATTRIBUTED)],
        diagnosis=diagnosis(OPEN),
        health=(),
        overhead={"us_per_step": None, "share": None},
    )
    pace = RankPace(steps=None, total_steps=100, step_ms=None, own_ms=None)
    return RankSummary(**({"sections": sections, "pace": pace, "next_step": ALONE} | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "compared", "verdict", "tried", "command"),
    [
        ({}, None, OPEN, None, "slowstep alone"),
        ({"other_launcher": LAUNCHER}, None, OPEN, None, "slowstep analyze other"),
        ({"following": lambda _: BY_ANOTHER}, None, OPEN, None, "slowstep alone"),
        ({"following": lambda _: BY_ANOTHER}, None, OTHER, None, "slowstep again"),
        ({"other_launcher": LAUNCHER}, WAITS, OPEN, None, "slowstep analyze job --rank 1"),
        ({}, WAITS, HEALTHY, None, "slowstep alone"),
        ({"other_launcher": LAUNCHER}, WAITS, OPEN, TRIED, "slowstep tried"),
    ],
    ids=["alone", "another launcher", "the same diagnosis", "another one", "a slower rank", "nothing is open", "an experiment"],
)
def test_what_tells_most_stands(
    more: dict[str, object], compared: RankComparison | None, verdict: Verdict, tried: NextStep | None, command: str
) -> None:
    step = after_all(0, rank(**more), diagnosis(verdict), compared, given=[Path("job")], tried=tried)

    assert step.command == command


def test_a_command_after_an_experiment_is_typed_where_the_script_was_started(tmp_path: Path) -> None:
    tried = NextStep(command="slowstep run train.py", starts_script=True)

    step = after_all(0, rank(next_step=NextStep(folder=str(tmp_path))), diagnosis(OPEN), None, given=[tmp_path], tried=tried)

    assert step.command == f"cd {tmp_path} && slowstep run train.py"


@pytest.mark.parametrize("by_fault", [False, True])
def test_of_a_rank_by_itself_a_fault_comes_before_what_its_source_says(by_fault):
    asked: list[Diagnosis] = []

    def own(diagnosis: Diagnosis) -> NextStep:
        asked.append(diagnosis)
        return ALONE

    step = after_one(Path("run"), replace(diagnosis(OPEN), by_fault=by_fault), own)

    assert (len(asked), step == ALONE) == ((0, False) if by_fault else (1, True))
