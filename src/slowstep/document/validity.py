"""Holds a report against its JSON Schema and its accounts."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, cast

from slowstep.document.bench import unbalanced_bench
from slowstep.document.ledger_rows import unbalanced
from slowstep.document.report import Report


def json_schema() -> dict[str, Any]:
    """The JSON Schema of report.json, as shipped in the package."""
    text = resources.files("slowstep.document").joinpath("report.schema.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def validate(report: dict[str, Any] | Report) -> None:
    """Hold a report against its schema and its accounts. Raises ValueError with every fault; needs the package jsonschema."""
    found = faults(report)
    if found:
        raise ValueError("no valid report:\n" + "\n".join(sorted(found)))


def faults(report: dict[str, Any] | Report) -> list[str]:
    """What of a report breaks its schema or, where that holds, its accounts; needs the package jsonschema."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(json_schema())
    broken = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(report)]
    return broken or unbalanced(report["ledger"]) + (unbalanced_bench(report["bench"]) if "bench" in report else [])
