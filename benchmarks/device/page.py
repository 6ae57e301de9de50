"""results.md, drawn from results.json: a table for each part, and what was skipped or failed said where it would stand."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import card

Found = dict[str, Any]


def page(results: Found) -> str:
    """The page as Markdown."""
    head = f"# On a device, {results['date']}\n\n{card.in_words(results['machine'])}.\nMade by `benchmarks/device/run.sh`.\n"
    return head + "".join(f"\n## {name}\n\n{section(name, found)}" for name, found in results["parts"].items())


def section(name: str, found: Found) -> str:
    """One part: its table, and why it has none."""
    why = [f"{word}: {found[word]}." for word in ("failed", "skipped") if word in found]
    said = "" if not why else " ".join(why).capitalize() + "\n\n"
    rows = {key: value for key, value in found.items() if isinstance(value, dict)}
    return said + (SECTIONS[name](rows) if rows else "") + f"\nTook {found['seconds']} s.\n"


def overhead(rows: Found) -> str:
    lines = [table_head("step", "plain, ms", "with `run` / without", "losses are the same bits", "own account", "readings of the card")]
    for name, row in rows.items():
        if "ratios" not in row:
            lines.append(line(name, why(row)))
            continue
        recorded = [each for each in row["rows"] if each["arm"] == "recorded"]
        known = [each["overhead"]["share"] for each in recorded if each["overhead"]["share"] is not None]
        own = f"{statistics.median(known):.2%}" if known else "-"
        same = "yes" if row["same_losses"] else "no" if row["plain_runs_agree"] else "plain runs differ too"
        readings = min(each["readings"]["readings"] for each in recorded)
        lines.append(line(name, f"{row['plain_ms']:.2f}", spread(row["ratios"]), same, own, str(readings)))
    return "".join(lines)


def case_table(rows: Found) -> str:
    lines = [table_head("case", "in the study", "throughput here", "true gain", "`run --capture` says", "`analyze` says")]
    for name, row in rows.items():
        if "skipped" in row or row.get("tiny"):
            lines.append(line(name, row.get("skipped", "its fixed form ran on the processor, tiny")))
            continue
        here, true = (f"{1 / row['true']:.2f}", spread(row["gains"])) if "true" in row else ("1.00", "-")
        lines.append(line(name, f"{row['study']:.2f}", here, true, verdict(row.get("run")), verdict(row.get("analyze"))))
    return "".join(lines)


def replay(rows: Found) -> str:
    lines = [table_head("pair", "with, ms", "without, ms", "true gain", "predicted", "holds")]
    for name, row in rows.items():
        if "true" not in row:
            lines.append(line(name, why(row)))
            continue
        predicted = "none" if row.get("predicted") is None else f"{row['predicted']:.2f} [{number(row['low'])}, {number(row['high'])}]"
        holds = {True: "yes", False: "no", None: "-"}[row.get("holds")]
        lines.append(line(name, f"{row['with_ms']:.2f}", f"{row['without_ms']:.2f}", f"{row['true']:.2f}", predicted, holds))
    return "".join(lines)


def facts(rows: Found) -> str:
    lines = [table_head("fact", "measured")]
    for group, row in rows.items():
        for name, value in flat(row, group):
            lines.append(line(name, f"{value:.4g}" if isinstance(value, float) else str(value)))
    return "".join(lines)


def traces(rows: Found) -> str:
    lines = [table_head("trace", "bytes", "stacks")]
    for name, row in rows.items():
        lines.append(line(name, f"{row['bytes']:,}" if "bytes" in row else why(row), str(row.get("stacks", "-"))))
    return "".join(lines)


SECTIONS: dict[str, Callable[[Found], str]] = {
    "overhead": overhead,
    "cases": case_table,
    "replay": replay,
    "facts": facts,
    "traces": traces,
}


def flat(row: Found, path: str) -> list[tuple[str, Any]]:
    """The values below, with their paths."""
    found: list[tuple[str, Any]] = []
    for name, value in row.items():
        found += flat(value, f"{path}: {name}") if isinstance(value, dict) else [(f"{path}: {name}", value)]
    return found


def verdict(report: Found | None) -> str:
    """A report's verdict and the gain of its first finding."""
    if report is None:
        return "-"
    if "failed" in report:
        return f"failed: {report['failed'].strip().splitlines()[-1][:80]}"
    said = report["verdict"]
    gain = report["findings"][0] if report["findings"] and said["rule"] else None
    what = f" {said['rule']}" if said["rule"] else ""
    factor = f" {number(gain['predicted'])} [{number(gain['low'])}, {number(gain['high'])}]" if gain else ""
    return f"{said['state']}, {said['stage']}{what}{factor}"


def spread(values: list[float]) -> str:
    """A median and the range."""
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def why(row: Found) -> str:
    return str(row.get("failed") or row.get("skipped") or "-")


def line(*cells: str) -> str:
    escaped = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |\n"


def table_head(*cells: str) -> str:
    return line(*cells) + line(*["---"] * len(cells))
