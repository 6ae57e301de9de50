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


TITLE = "# Trainings re-enacted from public reports"
SUMMED_UP = """Slow trainings that people have reported, and healthy ones, re-enacted in small by the authors of slowstep, who mend rules
with what these show. Each training, what is true of it and what was said: [table.md](../benchmarks/wild/table.md). The blind third was
written from the reports alone, and is scored once, when the rules are done; where it has no column here it has not been."""


def draw(raw: dict[str, Any], results_name: str, cases: list[Case], blind: list[Case]) -> str:
    """The page as Markdown: the trainings that may be looked at, and apart from them those that may not."""
    sections = [
        TITLE,
        said_of_the_runs(raw, results_name),
        section("Trainings that rules may be mended with", raw, cases),
    ]
    if blind:
        sections.append(section("The blind third: scored, never tuned to", raw, blind))
    return "\n\n".join(sections) + "\n"


def summary(raw: dict[str, Any], results_name: str, cases: list[Case], blind: list[Case]) -> str:
    """The counts alone, the blind third beside the others, as a section of another page."""
    columns = {"rules may be mended with them": cases, "blind third": blind}
    scores = {head: score for head, those in columns.items() if (score := Score(outcomes=outcomes_of(raw, those))).outcomes}
    counted = {head: dict(counts(score)) for head, score in scores.items()}
    table = [f"| | {' | '.join(scores)} |", f"| ---{' | ---' * len(scores)} |"]
    table += [f"| {name} | {' | '.join(each[name] for each in counted.values())} |" for name in next(iter(counted.values()), ())]
    return "\n\n".join((TITLE, SUMMED_UP, "\n".join(table), said_of_the_runs(raw, results_name) + without_results(raw, cases))) + "\n"


def without_results(raw: dict[str, Any], cases: list[Case]) -> str:
    """Which trainings were not run at all."""
    left = sorted({case.name for case in cases} - {row["case"] for row in raw["rows"] + raw["failed"]})
    return f"\n- not run yet: {', '.join(left)}" if left else ""


def with_newer(raw: dict[str, Any], results_name: str, newer: dict[str, Any], newer_name: str) -> dict[str, Any]:
    """The results with those of the trainings that were run again in the place of the older ones; what is said of each run is kept."""
    again = {row["case"] for row in newer["rows"] + newer["failed"]}
    kept = {kind: [row for row in raw[kind] if row["case"] not in again] + newer[kind] for kind in ("rows", "failed")}
    sittings = [*raw.get("sittings", [[results_name, raw]]), [newer_name, newer]]
    return {**raw, **kept, "sittings": sittings}


def said_of_the_runs(raw: dict[str, Any], results_name: str, maker: str = "run.py") -> str:
    """By what, when, where and how the runs were made, sitting by sitting, of which a later one stands in the place of an earlier; and what
    failed.
    """
    sittings = raw.get("sittings", [[results_name, raw]])
    said = [f"- {said_of_a_sitting(each, name, maker)}{rerun(each) if again else ''}" for again, (name, each) in enumerate(sittings)]
    return "\n".join(said + [f"- failed: {row['case']}, round {row['round']}" for row in raw["failed"]])


def rerun(raw: dict[str, Any]) -> str:
    """That a later sitting is of chosen trainings, after what the one before it showed."""
    cases = sorted({row["case"] for row in raw["rows"] + raw["failed"]})
    return f" {len(cases)} trainings again, after rules were changed by what was said of them before: {', '.join(cases)}."


def said_of_a_sitting(raw: dict[str, Any], results_name: str, maker: str) -> str:
    tried = f" Only {raw['steps']} steps each: these figures mean nothing." if raw["steps"] else ""
    busy = f"busy with other work {raw['foreign_share']:.0%} of the time"
    return (
        f"Made by `benchmarks/wild/{maker}` from `benchmarks/results/{results_name}`: {raw['date']}, {raw['rounds']} rounds "
        f"with {raw['pairs']} pairs a training. Machine: {in_words(raw['machine'])}; {busy}.{tried}"
    )


def section(title: str, raw: dict[str, Any], cases: list[Case]) -> str:
    rows = {case.name: [row for row in raw["rows"] if row["case"] == case.name] for case in cases}
    outcomes = outcomes_of(raw, cases)
    table = [case_row(case, [each for each in outcomes if each.case == case.name], rows[case.name]) for case in cases if rows[case.name]]
    return "\n\n".join((f"## {title}", totals(Score(outcomes=outcomes)), "\n".join([HEAD, *table])))


def outcomes_of(raw: dict[str, Any], cases: list[Case]) -> tuple[Outcome, ...]:
    """What was said of each of the trainings, in their order."""
    return tuple(to_outcome(case, row["report"], true_of(row)) for case in cases for row in raw["rows"] if row["case"] == case.name)


def true_of(row: dict[str, Any]) -> float | None:
    """True gain beside this very report: load that comes and goes changes the truth itself."""
    ratios = ratios_of([row])
    return estimate(ratios).value if ratios else None


def ratios_of(rows: list[dict[str, Any]]) -> list[float]:
    return [pair["fixed"] / pair["base"] for row in rows for pair in row["pairs"]]


def totals(score: Score) -> str:
    return "\n".join(("| reports | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in counts(score))))


def counts(score: Score) -> list[tuple[str, str]]:
    """What is counted, by name."""
    total, planted, healthy = len(score.outcomes), len(score.planted), len(score.healthy)
    named = sum(bool(outcome.named) for outcome in score.planted)
    error = score.median_log_error
    return [
        ("state and stage right", f"{score.count('right')} of {total}"),
        ("confidently wrong", f"{score.count('confidently_wrong')} of {total}"),
        ("undetermined", f"{score.count('undetermined')} of {total}"),
        ("cause named", f"{named} of {planted}"),
        ("false alarms", f"{score.count('false_alarm')} of {healthy}"),
        ("gain told", f"{len(score.told)} of {planted}"),
        ("median of \\|ln(predicted / true)\\|", "-" if error is None else f"{error:.3f}"),
    ]


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
