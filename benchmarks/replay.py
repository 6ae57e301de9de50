"""Are gains by replay true? One script with and without each problem: the gain predicted from its trace against the true one.

For each pair of `replay_pairs.py` and each round: the median step with the problem and without it (not profiled, in turns), and a trace of
the one with the problem, from which the gain is predicted. Pairs that need a device are skipped where there is none. Writes
`results/replay-<date>.json` and `replay.md`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from replay_page import page
from replay_pairs import PAIRS

from slowstep.analyses.measure_trace import measure_trace
from slowstep.diagnosis.replayed import Replayed
from slowstep.findings import Gain
from slowstep.sources.kineto import SOURCE

HERE = Path(__file__).parent
SECONDS_AT_MOST = 900


def predict(trace: Path, scenario: str) -> Gain:
    """The gain that a trace's replay predicts."""
    return Replayed(scenario, assumes=scenario).gain(measure_trace(SOURCE.read(trace)))


def measure(name: str, rounds: int) -> list[dict[str, Any]]:
    """One row a round: true gain, predicted gain and its interval."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HERE / "replay_pairs.py"), name, str(rounds), folder]
        subprocess.run(command, check=True, timeout=SECONDS_AT_MOST, stdout=subprocess.DEVNULL)
        times = json.loads((Path(folder) / "times.json").read_text())
        gains = [predict(Path(folder) / f"round-{number}.json.gz", PAIRS[name].scenario) for number in range(rounds)]
    rows = []
    for each, gain in zip(times, gains, strict=True):
        true = each["with"] / each["without"]
        row = {"with_ms": each["with"] * 1e3, "without_ms": each["without"] * 1e3, "true": true, "assumes": gain.assumes}
        row |= {"predicted": gain.predicted, "low": gain.low, "high": gain.high}
        if gain.predicted is not None and gain.low is not None and gain.high is not None:
            row |= {"ln": abs(math.log(gain.predicted / true)), "holds": gain.low <= true <= gain.high}
        rows.append(row)
    return rows


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--pairs", nargs="*", choices=sorted(PAIRS), default=list(PAIRS))
    options.add_argument("--out", type=Path, default=HERE / "results" / f"replay-{datetime.date.today().isoformat()}.json")
    given = options.parse_args()
    results: dict[str, Any] = {}
    for name in given.pairs:
        if PAIRS[name].device == "cuda" and not torch.cuda.is_available():
            results[name] = {"skipped": "no device"}
            continue
        rows = measure(name, given.rounds)
        results[name] = {"scenario": PAIRS[name].scenario, "rounds": rows}
        judged = [row["ln"] for row in rows if "ln" in row]
        print(name, f"median |ln| {statistics.median(judged):.3f}" if judged else f"not judged: {rows[0]['assumes']}", flush=True)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    machine = {"cores": len(os.sched_getaffinity(0)), "machine": platform.machine(), "torch": torch.__version__, "device": device}
    machine["load"] = os.getloadavg()[0]
    given.out.write_text(json.dumps({"machine": machine, "pairs": results}, indent=1) + "\n")
    (HERE / "replay.md").write_text(page(given.out.name, machine, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
