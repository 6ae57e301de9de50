"""The table of the wild suite, drawn from a results file."""

from __future__ import annotations

from typing import Any

from machine import in_words
from paired import estimate
from score import Outcome, Score, to_outcome
from suite import Case

HEAD = (
    "| training | truth | said | stage | rule | right | cause named | predicted | true gain (90 % interval) |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def draw(raw: dict[str, Any], results_name: str, cases: list[Case], blind: list[Case]) -> str:
    """The page as Markdown: the trainings that may be looked at, and apart from them those that may not."""
    sections = [
        "# Trainings re-enacted from public reports",
        said_of_the_runs(raw, results_name),
        section("Trainings that rules may be mended with", raw, cases),
    ]
    if blind:
        sections.append(section("The blind third: scored, never tuned to", raw, blind))
    return "\n\n".join(sections) + "\n"


def said_of_the_runs(raw: dict[str, Any], results_name: str, maker: str = "run.py") -> str:
    """By what, when, where and how the runs were made."""
    tried = f" Only {raw['steps']} steps each: these figures mean nothing." if raw["steps"] else ""
    failed = "".join(f"\n- failed: {row['case']}, round {row['round']}" for row in raw["failed"])
    busy = f"busy with other work {raw['foreign_share']:.0%} of the time"
    return (
        f"This page is made by `benchmarks/wild/{maker}` from `benchmarks/results/{results_name}`: {raw['date']}, {raw['rounds']} rounds "
        f"with {raw['pairs']} pairs a training. Machine: {in_words(raw['machine'])}; {busy}.{tried}{failed}"
    )


def section(title: str, raw: dict[str, Any], cases: list[Case]) -> str:
    rows = {case.name: [row for row in raw["rows"] if row["case"] == case.name] for case in cases}
    outcomes = {case.name: [to_outcome(case, row["report"], true_of(row)) for row in rows[case.name]] for case in cases}
    score = Score(outcomes=tuple(outcome for case in cases for outcome in outcomes[case.name]))
    table = [case_row(case, outcomes[case.name], rows[case.name]) for case in cases if rows[case.name]]
    return "\n\n".join((f"## {title}", totals(score), "\n".join([HEAD, *table])))


def true_of(row: dict[str, Any]) -> float | None:
    """True gain beside this very report: load that comes and goes changes the truth itself."""
    ratios = ratios_of([row])
    return estimate(ratios).value if ratios else None


def ratios_of(rows: list[dict[str, Any]]) -> list[float]:
    return [pair["fixed"] / pair["base"] for row in rows for pair in row["pairs"]]


def totals(score: Score) -> str:
    total, planted, healthy = len(score.outcomes), len(score.planted), len(score.healthy)
    named = sum(bool(outcome.named) for outcome in score.planted)
    error = score.median_log_error
    return "\n".join(
        (
            "| reports | |",
            "| --- | --- |",
            f"| state and stage right | {score.count('right')} of {total} |",
            f"| confidently wrong | {score.count('confidently_wrong')} of {total} |",
            f"| undetermined | {score.count('undetermined')} of {total} |",
            f"| cause named | {named} of {planted} |",
            f"| false alarms | {score.count('false_alarm')} of {healthy} |",
            f"| gain told | {len(score.told)} of {planted} |",
            f"| median of \\|ln(predicted / true)\\| | {'-' if error is None else f'{error:.3f}'} |",
        )
    )


def case_row(case: Case, outcomes: list[Outcome], rows: list[dict[str, Any]]) -> str:
    truth = "/".join(case.stages) or "healthy"
    right = f"{sum(outcome.right for outcome in outcomes)} of {len(outcomes)}"
    named = f"{sum(bool(outcome.named) for outcome in outcomes)} of {len(outcomes)}" if case.state == "bottleneck" else "-"
    predicted = ", ".join(f"{each.predicted:.2f} ({each.basis})" if each.predicted else "-" for each in outcomes)
    cells = (
        case.name,
        truth,
        words(outcomes, "said"),
        words(outcomes, "stage"),
        words(outcomes, "rule"),
        right,
        named,
        predicted,
        true_shown(rows),
    )
    return f"| {' | '.join(cells)} |"


def words(outcomes: list[Outcome], field: str) -> str:
    """What was said, each once, in the order in which it was said."""
    return ", ".join(dict.fromkeys(str(getattr(outcome, field) or "-") for outcome in outcomes))


def true_shown(rows: list[dict[str, Any]]) -> str:
    ratios = ratios_of(rows)
    if not ratios:
        return "-"
    known = estimate(ratios)
    return f"{known.value:.2f} ({known.low:.2f} to {known.high:.2f})" if len(ratios) > 1 else f"{known.value:.2f}"
