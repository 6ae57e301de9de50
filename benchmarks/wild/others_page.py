"""The table of the wild suite through several tools, drawn from a results file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from others_said import READINGS, Reading, document
from page import said_of_the_runs, true_of
from score import Outcome, Score, to_outcome
from suite import Case

HEAD = (
    "| tool | right | confidently wrong | undetermined | no report | false alarms | cause named | gain told | median of "
    "\\|ln(predicted / true)\\| |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)
READ_AS = (
    "Each tool is run as its own first page says, and read as it asks to be read: what it says first and calls more than a remark is its "
    "verdict, `healthy` where there is none. What a tool's word covers counts as any of these stages; a gain is the factor that it tells "
    "with its first finding, or none. A run that failed, or after which the tool had no answer, is no report. All ran on a processor, "
    "and fournex and gpuprof are made for devices: gpuprof's figures of a mock are left out, and fournex has a row with and one without "
    "what it concludes from a device that does no work."
)


def draw(raw: dict[str, Any], results_name: str, cases: list[Case], blind: list[Case]) -> str:
    """The page as Markdown: a row a tool, for the trainings that may be looked at, and apart from them those that may not."""
    sections = [
        "# The same trainings through other tools",
        said_of_the_runs(raw, results_name, "others.py"),
        READ_AS,
        f"## Trainings that rules may be mended with\n\n{scores(raw, cases)}",
        *([f"## The blind third\n\n{scores(raw, blind)}"] if blind else []),
        f"## What each said\n\n{each_said(raw, cases)}",
        f"## Which stages a tool's word covers\n\n{stages()}",
    ]
    return "\n\n".join([*sections, *no_reports(raw)]) + "\n"


def scores(raw: dict[str, Any], cases: list[Case]) -> str:
    return "\n".join([HEAD, *(score_row(reading, raw, cases) for reading in asked(raw))])


def asked(raw: dict[str, Any]) -> list[Reading]:
    """The readings of those tools that were run."""
    there = {tool for row in raw["rows"] for tool in row["report"]}
    return [reading for reading in READINGS if reading.tool in there]


def score_row(reading: Reading, raw: dict[str, Any], cases: list[Case]) -> str:
    rows = [(case, row) for case in cases for row in rows_of(raw, case)]
    score = Score(outcomes=tuple(outcome_of(reading, case, row) for case, row in rows))
    failed = sum("failed" in row["report"][reading.tool] for _, row in rows)
    total, planted, error = len(rows), len(score.planted), score.median_log_error
    cells = (
        reading.name(raw["tools"].get(reading.tool)),
        f"{score.count('right')} of {total}",
        f"{score.count('confidently_wrong')} of {total}",
        f"{score.count('undetermined') - failed} of {total}",
        f"{failed} of {total}",
        f"{score.count('false_alarm')} of {len(score.healthy)}",
        f"{sum(bool(outcome.named) for outcome in score.planted)} of {planted}",
        f"{len(score.told)} of {planted}",
        "-" if error is None else "none told" if not score.told else f"{error:.3f}",
    )
    return f"| {' | '.join(cells)} |"


def rows_of(raw: dict[str, Any], case: Case) -> list[dict[str, Any]]:
    return [row for row in raw["rows"] if row["case"] == case.name]


def outcome_of(reading: Reading, case: Case, row: dict[str, Any]) -> Outcome:
    return to_outcome(case, document(reading, row["report"][reading.tool], case), true_of(row))


def each_said(raw: dict[str, Any], cases: list[Case]) -> str:
    """A row a training, a column a tool."""
    # A tool that is read in two ways has one column.
    readings = list({reading.tool: reading for reading in reversed(asked(raw))}.values())[::-1]
    head = ["training", "truth", *(reading.tool for reading in readings)]
    lines = [head, ["---"] * len(head)]
    for case in cases:
        rows = rows_of(raw, case)
        if rows:
            truth = "/".join(case.stages) or "healthy"
            lines.append([case.name, truth, *(said_cell(reading, case, rows) for reading in readings)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def said_cell(reading: Reading, case: Case, rows: Iterable[dict[str, Any]]) -> str:
    """Each different answer once."""
    return ", ".join(dict.fromkeys(in_words(reading, case, row) for row in rows))


def in_words(reading: Reading, case: Case, row: dict[str, Any]) -> str:
    if "failed" in row["report"][reading.tool]:
        return "no report"
    outcome = outcome_of(reading, case, row)
    mark = "" if outcome.right or outcome.undetermined else " (wrong)"
    return f"{outcome.said}{f' `{outcome.rule}`' if outcome.rule else ''}{mark}"


def stages() -> str:
    rows = [(reading.tool, word, "/".join(covered)) for reading in READINGS if not reading.note for word, covered in reading.stages.items()]
    return "\n".join(["| tool | its word | stages |", "| --- | --- | --- |", *(f"| {tool} | `{word}` | {of} |" for tool, word, of in rows)])


def no_reports(raw: dict[str, Any]) -> list[str]:
    """Why there was none, once for each reason, of trainings that may be looked at."""
    said_of = [(row["case"], tool, said) for row in raw["rows"] if not row["blind"] for tool, said in row["report"].items()]
    failed = [(tool, case, said["failed"]) for case, tool, said in said_of if "failed" in said]
    lines = dict.fromkeys(f"- {tool}, {case}: `{last_words(why)}`" for tool, case, why in failed)
    return [f"## No report\n\n{chr(10).join(lines)}"] if lines else []


def last_words(text: str) -> str:
    """The two lines in which a failure says what it is."""
    return " ".join(text.strip().splitlines()[-2:]).replace("`", "'").replace("|", "\\|")
