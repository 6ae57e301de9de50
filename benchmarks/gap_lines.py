"""How well the parts of gaps are known in loops without a loader: ten loops, each timed by itself and beside it by `slowstep run`.

Prints the share of each function by the script's own clock, and what slowstep said, as a ratio; then median and largest error.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from pathlib import Path

from case_study import SLOWSTEP, ChildFailed, run_limited

LOOP = Path(__file__).resolve().parent / "gap_lines_loop.py"
KINDS = (
    "windows",
    "gather",
    "tokens",
    "parse",
    "draw",
    "windows+count",
    "gather+count",
    "tokens+count",
    "gather+stats",
    "tokens+stats",
)
LIMIT_S = 120.0


def true_shares(kind: str, folder: str) -> dict[str, float]:
    """Share of the loop's time by function, read inside the script."""
    shares: dict[str, float] = json.loads(run_limited([sys.executable, str(LOOP), kind, "--timed"], folder, LIMIT_S).splitlines()[-1])
    return shares


def told_shares(kind: str, folder: str) -> dict[str, float]:
    """The same by the report's ledger."""
    report = Path(folder) / "report.json"
    run_limited([str(SLOWSTEP), "run", "--out", folder, "--json", str(report), sys.executable, str(LOOP), kind], folder, LIMIT_S)
    ledger = json.loads(report.read_text())["ledger"]
    return {part["name"].partition(" (")[0]: part["share"] for row in ledger for part in row["parts"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    errors = []
    for _ in range(arguments.rounds):
        for kind in KINDS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    told, true = told_shares(kind, folder), true_shares(kind, folder)
                except ChildFailed as error:
                    print(error, file=sys.stderr)
                    return 2
            for name, share in true.items():
                errors.append(abs(math.log(max(told.get(name, 0.0), 1e-3) / share)))
                print(f"{kind:14} {name:8} true {share:.3f}  told {told.get(name, 0.0):.3f}", flush=True)
    print(f"off by {math.exp(statistics.median(errors)):.2f} times in the median, {math.exp(max(errors)):.2f} times at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
