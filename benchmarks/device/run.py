"""Runs the parts of the device benchmark, each in a process of its own with a time limit, and writes what is known after each.

`benchmarks/device/run.sh [--out FOLDER] [--list] [PART ...]`. Without a device every part says so and ends well. FOLDER gets results.json,
results.md and traces/; the default is benchmarks/results/device-<card>-<date>.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import card
from page import page

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One question: the script that answers it, and the seconds that it may take."""

    script: str
    limit_s: float
    asks: str


# The most telling first: a lent machine may be taken back at any time. Together six minutes at most.
PARTS = {
    "overhead": Part(script="overhead.py", limit_s=85, asks="what recording costs beside a device, and whether it changes anything"),
    "cases": Part(
        script="case_pairs.py", limit_s=150, asks="six slow trainings: verdicts and gains of run --capture and analyze, beside the truth"
    ),
    "replay": Part(script="replay_truth.py", limit_s=50, asks="gains by replay of a trace, beside the measured gain of the fix"),
    "facts": Part(script="facts.py", limit_s=20, asks="what events, queries, copies and the profiler cost"),
    "traces": Part(script="traces.py", limit_s=55, asks="small real traces as test data"),
}


def run_part(name: str, folder: Path) -> dict[str, Any]:
    """What a part found: its own JSON, or why there is none. What it had written until its limit counts."""
    result, part = folder / f"{name}.json", PARTS[name]
    result.unlink(missing_ok=True)
    began = time.monotonic()
    words = [sys.executable, str(HERE / part.script), "--result", str(result), "--folder", str(folder), "--seconds", str(part.limit_s - 10)]
    try:
        ended = subprocess.run(words, timeout=part.limit_s, check=False)
        failed = None if ended.returncode == 0 else f"exit code {ended.returncode}"
    except subprocess.TimeoutExpired:
        failed = f"not ended after {part.limit_s:.0f} s"
    found: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {}
    for left in (result, result.with_suffix(".part")):
        left.unlink(missing_ok=True)
    return found | {"seconds": round(time.monotonic() - began, 1)} | ({"failed": failed} if failed else {})


def main() -> int:
    """0 also where there is no device: then every part has said so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, help="folder of the results")
    parser.add_argument("--list", action="store_true", help="say what the parts ask, and end")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name:9} {part.limit_s:4.0f} s  {part.asks}" for name, part in PARTS.items()))
        return 0
    facts = card.describe()
    print(card.in_words(facts), flush=True)
    today = datetime.now(UTC).date().isoformat()
    folder = arguments.out or RESULTS / f"device-{card.short_name(facts)}-{today}"
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "results.json"
    # A part alone leaves those of an earlier run on the same day as they are.
    results = json.loads(written.read_text()) if written.exists() else {"parts": {}}
    results |= {"date": today, "machine": facts}
    for name in arguments.parts or PARTS:
        results["parts"][name] = run_part(name, folder)
        written.write_text(json.dumps(results, indent=1) + "\n")
        (folder / "results.md").write_text(page(results))
        said = results["parts"][name]
        print(f"{name}: {said.get('failed') or said.get('skipped') or 'done'} ({said['seconds']} s)", flush=True)
    print(f"written: {folder / 'results.md'}")
    return 1 if any("failed" in results["parts"][name] for name in arguments.parts or PARTS) else 0


if __name__ == "__main__":
    sys.exit(main())
