"""Draws prove.md from the stored results of prove.py."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from prove_score import Ends, Scored, allowed, false_proofs, known_in_s, median_log_error, misses, score

HEAD = """# Are the proofs right?

Made by `benchmarks/prove.py` from `benchmarks/results/{results}`. Measured: the gain by `slowstep prove` in one process, its lever
switched on and off. True: samples/s that the plain script says without the problem by those with it, in pairs of runs right before and
after (mean over the pairs of a round; interval by Student's t, the spread of pairs within rounds taken together). What a fix gains
differs between machines and hours, so each round is compared with its own pairs. Medians over rounds; the last column is the time of the
whole command, start-up and all.
"""


def page(results_file: str, raw: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    error, (wrong, runs) = median_log_error(raw), false_proofs(raw)
    lines = [HEAD.format(results=results_file), *(_sitting(each) for each in raw["sittings"]), ""]
    lines += ["| variant, lever | true gain | measured | \\|ln\\| | intervals overlap | s |", "| --- " * 6 + "|"]
    lines += [_row(each) for each in score(raw)]
    lines.append(f"\nMedian |ln| {'-' if error is None else f'{error:.3f}'} (bar: 0.04).")
    known, tried = known_in_s(raw)
    if known:
        lines.append(
            f"\nWithout start-up and lead-in single levers were known to 5 % after {statistics.median(known):.0f} s: median of {len(known)}"
            f" experiments of {tried}, of which the others spent their budget."
        )
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
    if not each.measured:
        return f"| {each.name} | - | {', '.join(dict.fromkeys(each.reasons))} | - | - | {each.took_s:.0f} |"
    overlap = f"{each.overlapping} of {len(each.measured)}"
    return f"| {each.name} | {_median(each.true)} | {_median(each.measured)} | {each.log_error:.3f} | {overlap} | {each.took_s:.0f} |"


def _median(ends: Sequence[Ends]) -> str:
    value, low, high = (statistics.median(each[at] for each in ends) for at in range(3))
    return f"{value:.2f}" if low == high else f"{value:.2f} [{low:.2f}, {high:.2f}]"
