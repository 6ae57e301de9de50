"""Draws replay.md from the stored results of replay.py; computes medians and counts only."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

HEAD = """# Gains by replay against true gains

Made by `benchmarks/replay.py` from `benchmarks/results/{results}`. Each row is one training script with and without one problem: the true
gain is the median step with it by the median step without it, neither profiled, in turns; the predicted gain comes from a trace of the
one with the problem. `no-problem` has none: what its gains miss 1 by is the noise of the machine.
Medians over rounds. `|ln|` is |ln(predicted / true)|; the last column says in how many rounds the interval held the true gain.
"""


def page(results_file: str, machine: Mapping[str, Any], pairs: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    said = f"{machine['cores']} cores ({machine['machine']}), load {machine['load']:.1f}, torch {machine['torch']}"
    lines = [HEAD.format(results=results_file), f"Machine: {said}, {machine['device'] or 'no device'}.\n"]
    lines += ["| pair | scenario | with, ms | without, ms | true gain | predicted | \\|ln\\| | interval holds |", "| --- " * 8 + "|"]
    lines += [_row(name, pair) for name, pair in pairs.items() if "rounds" in pair]
    skipped = [name for name, pair in pairs.items() if "rounds" not in pair]
    judged = [row for pair in pairs.values() for row in pair.get("rounds", []) if "ln" in row]
    if judged:
        holds = sum(row["holds"] for row in judged)
        lines.append(
            f"\nOver all rounds: median |ln| {statistics.median(row['ln'] for row in judged):.3f}, {holds} of {len(judged)} intervals hold."
        )
    if skipped:
        lines.append(f"\nNot run, for want of a device: {', '.join(skipped)}.")
    return "\n".join(lines) + "\n"


def _row(name: str, pair: Mapping[str, Any]) -> str:
    rounds = pair["rounds"]
    judged = [row for row in rounds if "ln" in row]

    def median(column: str, among: list[Mapping[str, Any]], digits: int = 2) -> str:
        return f"{statistics.median(row[column] for row in among):.{digits}f}" if among else "-"

    cells = [name, pair["scenario"], median("with_ms", rounds, 1), median("without_ms", rounds, 1), median("true", rounds)]
    predicted = f"{median('predicted', judged)} [{median('low', judged)}, {median('high', judged)}]"
    cells += [predicted, median("ln", judged, 3), f"{sum(row['holds'] for row in judged)} of {len(rounds)}"]
    return "| " + " | ".join(cells) + " |"
