"""Draws prove.md from the stored results of prove.py."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from prove_score import Scored, allowed, false_proofs, median_log_error, misses, score

HEAD = """# Are the proofs right?

Made by `benchmarks/prove.py`; the results are in `results/`. Measured: the gain by `slowstep prove` in one process, its lever switched on
and off. True: samples/s that the plain script says without the problem by those with it, in pairs of runs right before and after (mean
over pairs, interval by Student's t). Medians over rounds; the last column is the time of the whole command, start-up and all.
"""


def page(raw: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    error, (wrong, runs) = median_log_error(raw), false_proofs(raw)
    lines = [HEAD, *(_sitting(each) for each in raw["sittings"]), ""]
    lines += ["| variant, lever | true gain | measured | \\|ln\\| | intervals overlap | s |", "| --- " * 6 + "|"]
    lines += [_row(each) for each in score(raw)]
    lines.append(f"\nMedian |ln| {'-' if error is None else f'{error:.3f}'} (bar: 0.04).")
    if runs:
        lines.append(
            f"\nThe healthy base, levers without effect: something was proved in {wrong} of {runs} runs (at most {allowed(runs)} may be)."
        )
    lines += ["\nMissed:", *(f"- {word}" for word in misses(raw))] if misses(raw) else []
    return "\n".join(lines) + "\n"


def _sitting(each: Mapping[str, Any]) -> str:
    facts = each["machine"]
    said = f"{facts['cpu']}, {facts['cores']} cores, torch {facts['torch']}, load at the start {facts['load'][0]}"
    return f"- {each['date']}, seed {each['seed']}, budget {each['budget']}. Machine: {said}."


def _row(each: Scored) -> str:
    true = f"{each.true:.2f}" + ("" if each.true_low is None else f" [{each.true_low:.2f}, {each.true_high:.2f}]")
    if not each.measured:
        return f"| {each.name} | {true} | {', '.join(dict.fromkeys(each.reasons))} | - | - | {each.took_s:.0f} |"
    value, low, high = (statistics.median(gain[at] for gain in each.measured) for at in range(3))
    overlap = f"{each.overlapping} of {len(each.measured)}"
    return f"| {each.name} | {true} | {value:.2f} [{low:.2f}, {high:.2f}] | {each.log_error:.3f} | {overlap} | {each.took_s:.0f} |"
