"""What slowstep answers of a recording or a trace, by code and value: verdict, ledger, findings, gains, and what went unjudged.

No words, so that another wording changes no golden file: a part is its stage, kind, name and place, a reason its code, a piece of evidence
its value, in the rule's order, and of where it was seen what is no plain word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowstep.part_words import piece_in_words
from slowstep.parts import CodePlace, Part
from slowstep.workflow.analyze import analyze

# Enough to see a changed estimator, and less than what another version of numpy changes.
DIGITS = 6
# Between the calls of a path.
PATH = " > "
# What stands in a row of an experiment as a code.
OF_EXPERIMENT = ("lever", "role", "rule", "state", "used", "verdict", "held_back", "how")


def answers(paths: list[Path]) -> dict[str, Any]:
    """The values of the report of every rank, by its number; of a single process by `0`."""
    shown = analyze(paths)
    numbers = [row["number"] for row in shown["run"].get("rank_rows", []) if row["report"] is not None]
    if len(numbers) < 2:
        return {"0": _answer(shown, paths)}
    reports = (shown if number == shown["run"]["training"] else analyze(paths, rank=number) for number in numbers)
    return {str(number): _answer(report, paths) for number, report in zip(numbers, reports, strict=True)}


def code_of_part(part: Part) -> str:
    """What a part is, without its words: `output/callback:Plot.on_train_batch_end@train.py:9`, `compute/launch+between steps`."""
    name = "" if part.name is None else f":{part.name}"
    place = "" if part.place is None else f"@{_code_of_place(part.place)}"
    piece = "" if part.piece is None else f"+{piece_in_words(part.piece)}"
    return f"{part.stage}/{part.kind.value}{name}{place}{piece}"


def _code_of_place(place: CodePlace) -> str:
    return ":".join(str(each) for each in place if each is not None)


def _answer(report: Mapping[str, Any], paths: list[Path]) -> dict[str, Any]:
    return {
        "verdict": _of(report["verdict"], "state", "stage", "healthy", "rule", "code"),
        "steps": report["run"]["steps"],
        "throughput": report["throughput"],
        "capture": _capture(report["run"].get("capture")),
        "ranks": [_of(row, "rank", "steps", "samples_per_s", "own_ms", "state", "rule") for row in report["run"].get("rank_rows", [])],
        "ledger": {row["stage"]: _stage(row) for row in report["ledger"]},
        "findings": [_finding(row) for row in report["findings"]],
        "next": report["next"] and _of(report["next"], "stage", "code"),
        "next_command": _command(report["run"].get("next_command"), paths),
        "not_judged": {row["rule"]: [row["code"], row["advisory"]] for row in report["not_judged"]},
        "health": {row["name"]: [row["severity"], row["count"]] for row in report["health"]},
        "experiments": [_experiment(row) for row in report["experiments"]],
    }


def written(values: Mapping[str, Any]) -> str:
    """The text of a golden file: a line for each value, so that a difference shows what changed."""
    return json.dumps(_rounded(values), indent=1, ensure_ascii=False) + "\n"


def _capture(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else _of(row, "steps", "extra_ms")


def _command(command: str | None, paths: list[Path]) -> str | None:
    """Without the folder in which a file happens to lie."""
    for path in paths:
        command = command and command.replace(f"{path.parent}/", "")
    return command


def _stage(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"share": row["share"], "parts": {part["name"]: part["share"] for part in row["parts"]}}


def _finding(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_of(row, "rule", "stage", "share", "also"),
        "claims": sorted(row["claims"]),
        "outside": row.get("outside", False),
        "gain": _of(row["gain"], "predicted", "low", "high", "measured"),
        "evidence": [[each["value"], without_words(each["where"])] for each in row["evidence"]],
        "levers": [fix["lever"] for fix in row["fixes"]],
    }


def without_words(where: str | None) -> str | None:
    """The names and numbers in it: `2` of "of 2 allowed"; `train.py:9` and the calls of a path, `load > decode`, as they are."""
    if where is None or PATH in where:
        return where
    return " ".join(word for word in where.split() if not word.isalpha())


def _experiment(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if isinstance(value, (int, float, bool, dict, list)) or name in OF_EXPERIMENT}


def _of(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {str(name): _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value
