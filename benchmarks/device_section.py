"""The section "On a GPU" of the pages of accuracy and of overhead: what was measured on which card, or that nothing was yet."""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def section(part: str, what: str) -> str:
    """Links to the runs of `benchmarks/device/run.sh` that hold a part; `what` says, as a clause, what that part measures."""
    runs = [path for path in sorted(RESULTS.glob("device-*/results.json")) if _holds(path, part)]
    rows = "\n".join(f"- [{path.parent.name}](../benchmarks/results/{path.parent.name}/results.md)" for path in runs)
    said = rows or f"Nothing was measured yet: {what}, when a machine with one is at hand (`benchmarks/device/run.sh {part}`)."
    return f"## On a GPU\n\n{said}"


def _holds(path: Path, part: str) -> bool:
    found = json.loads(path.read_text())["parts"].get(part, {})
    return bool(found) and "skipped" not in found
