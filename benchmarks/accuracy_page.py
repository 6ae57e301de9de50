"""docs/accuracy.md, drawn from a results file, or from several of which a newer one's variants stand in the place of the older ones."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import device_section
from accuracy_score import LARGEST_MEDIAN_LOG_ERROR, SMALLEST_SHARE_HELD, Score, is_right, median_log_error, share_held, to_score
from case_study import BASE, VARIANTS, Variant
from machine import in_words

HERE = Path(__file__).resolve().parent
# Written by the wild suite: what the tool says of trainings re-enacted from public reports.
WILD = HERE / "wild" / "summary.md"
# Written by hand: what the tool said of trainings that it was not built from.
UNSEEN, MECHANISMS = HERE / "unseen.md", HERE / "mechanisms.md"
# Written by benchmarks of their own: the healthy base beside a load, proofs, and gains by replay of traces.
BESIDE = (HERE / "beside_load.md", HERE / "prove.md", HERE / "replay.md")
PEERS = """## Beside Holistic Trace Analysis

Shares and kernel totals of ten real traces are those of HTA to 0.00 points on nine; on the tenth HTA takes a collective for compute:
[benchmarks/peers.md](../benchmarks/peers.md)."""

METHOD = """## How it is measured

Every run, with its problem and without, goes through `slowstep run --json`. In each round the variants come in random order. A problem's
run stands between two runs of its fixed form (F P F); problems whose fixed form is the healthy base form one chain (F P F P ... F), so that
a fixed run in it serves both its neighbours. The true gain of a run is the mean throughput of the two fixed runs beside it over its own
throughput: both from the reports, because load that comes and goes changes the truth itself. Predicted is the gain of the report's first
finding. For `small-batch` and `too-few-workers` the fixed form has the number that the finding assumes. The base of a round is the first
fixed run of the chain. A run without a prediction counts as infinitely wrong, a missing interval as one that does not hold."""


UNPREDICTED = """Their rules say why, and name the lever that tells; right is that they are found, and that nothing else is the verdict.
The example's `too-few-threads` is no problem on the two cores of these machines: beside its loader's worker two threads were 0.73, 0.80 and
0.91 times as fast as one (2026-11-24, three pairs), and healthy is right. `idle-cores` advises more threads where a whole core is idle and
as many threads as find a core could gain a fifth."""


def draw(raw: dict[str, Any], results_files: list[str]) -> str:
    """The page as Markdown."""
    score = to_score(raw)
    sections = [
        "# How accurate the verdicts and gains are",
        *(a_level_down(page.read_text()) for page in (WILD, UNSEEN) if page.exists()),
        gate(raw, score),
        prediction_table(score),
        unpredicted_table(score),
        confusion_table(score),
        fixed_table(score),
        device_section.section("cases", "six slow trainings with and without their problem will be"),
        METHOD,
        sittings(raw, results_files),
        MECHANISMS.read_text().rstrip(),
        *(a_level_down(page.read_text()) for page in BESIDE if page.exists()),
        PEERS,
    ]
    return "\n\n".join(sections) + "\n"


def a_level_down(page: str) -> str:
    """A page as a section of another."""
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in page.rstrip().splitlines())


def gate(raw: dict[str, Any], score: Score) -> str:
    misses = score.misses()
    passed = "**The gate is passed.**" if not misses else "**The gate is missed:**\n" + "\n".join(f"- {miss}" for miss in misses)
    right = sum(map(is_right, score.trials))
    planted = len({trial.variant for trial in score.trials})
    first, last = (choose(each["date"] for each in raw["sittings"]) for choose in (min, max))
    return f"""## The gate: slowstep's own suite

{planted} planted problems in `examples/case_study`, which slowstep was built from, each run beside runs
without its problem; {first} to {last}, two shared cores.

| | measured | gate |
| --- | --- | --- |
| verdicts right | {right} of {len(score.trials)} | all |
| base called healthy | {score.base.count("healthy")} of {len(score.base)} | all |
| median of \\|ln(predicted / true)\\| | {number(median_log_error(score.predicted), 3)} | at most {LARGEST_MEDIAN_LOG_ERROR:.2f} |
| intervals that hold the true gain | {percent(share_held(score.predicted))} | at least {SMALLEST_SHARE_HELD:.0%} |

{passed}"""


def sittings(raw: dict[str, Any], results_files: list[str]) -> str:
    """When and on what machine each part was measured."""
    rows = "\n".join(
        f"- {each['date']}, {each['rounds']} rounds, seed {each['seed']}. Machine: {in_words(each['machine'])}; "
        f"busy with other work {each['foreign_share']:.0%} of the time."
        for each in raw["sittings"]
    )
    first, *again = (f"`benchmarks/results/{name}`" for name in results_files)
    files = first + (f", and where a variant was measured again from {' and '.join(again)}" if again else "")
    return f"""## When, and on what machine

This page is made by `benchmarks/accuracy.py` from {files}:

{rows}"""


def prediction_table(score: Score) -> str:
    lines = [
        "## Predicted and true gain",
        "",
        "| variant | predicted (median) | true (median) | true, range | median \\|ln\\| | intervals that hold | function named |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(lines + [prediction_row(score, variant) for variant in VARIANTS if variant.is_predicted])


def unpredicted_table(score: Score) -> str:
    lines = [
        "## Problems whose gain is not predicted",
        "",
        UNPREDICTED,
        "",
        "| variant | found by | in | verdicts | true gain (median) | range |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join(lines + [unpredicted_row(score, variant) for variant in VARIANTS if not variant.is_predicted])


def unpredicted_row(score: Score, variant: Variant) -> str:
    trials = score.of(variant.name)
    true = [trial.true for trial in trials if trial.true]
    said = ", ".join(f"{word} {count}" for word, count in score.confusion(variant.name).items()) or "-"
    found = f"{sum(trial.found for trial in trials)} of {len(trials)}"
    return f"| {variant.name} | {variant.expected} | {found} | {said} | {median(true)} | {span(true)} |"


def prediction_row(score: Score, variant: Variant) -> str:
    trials = score.of(variant.name)
    predicted = [trial.predicted for trial in trials if trial.predicted]
    true = [trial.true for trial in trials if trial.true]
    named = f"`{variant.function}` {sum(bool(t.named) for t in trials)} of {len(trials)}" if variant.function else "-"
    return (
        f"| {variant.name} | {median(predicted)} | {median(true)} | {span(true)} | {number(median_log_error(trials), 3)} "
        f"| {percent(share_held(trials))} | {named} |"
    )


def confusion_table(score: Score) -> str:
    counts = {variant.name: score.confusion(variant.name) for variant in VARIANTS} | {f"{BASE} (base)": Counter(score.base)}
    said = [variant.expected for variant in VARIANTS if variant.is_predicted] + ["healthy", "undetermined"]
    said += sorted({word for count in counts.values() for word in count} - set(said))
    lines = [
        "## What was planted (rows) and what was said (columns)",
        "",
        "| | " + " | ".join(said) + " |",
        "| --- " * (len(said) + 1) + "|",
    ]
    for name, count in counts.items():
        lines.append(f"| {name} | " + " | ".join(str(count[word]) if count[word] else "." for word in said) + " |")
    return "\n".join(lines)


def fixed_table(score: Score) -> str:
    lines = ["## What was said of the fixed forms", "", "| fixed form of | healthy | other |", "| --- | --- | --- |"]
    for name in dict.fromkeys(of for of, _ in score.fixed):
        words = Counter(word for of, word in score.fixed if of == name)
        other = ", ".join(f"{word} {count}" for word, count in words.items() if word != "healthy") or "-"
        lines.append(f"| {name} | {words['healthy']} of {words.total()} | {other} |")
    return "\n".join(lines)


def span(values: list[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}" if values else "-"


def median(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}" if values else "-"


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
