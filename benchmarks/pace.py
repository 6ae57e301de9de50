"""How much runs of one training differ, beside how much eighths of one run do: what `diagnosis/gain.py` takes the one for the other by.

python benchmarks/pace.py [--runs 6] [--variants healthy slow-collate slow-transform]
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
from case_study import SLOWSTEP, TRAIN

from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.over_time.pace import find_pace_spread, own_work
from slowstep.sources.recording import SOURCE

LIMIT_S = 240.0


def run(variant: str, folder: Path) -> tuple[float, float]:
    """Mean of the training's own work per step (ms) in one run, and the spread of its logarithm between eighths."""
    words = [str(SLOWSTEP), "run", "--out", str(folder), sys.executable, str(TRAIN), "--variant", variant]
    subprocess.run(words, check=True, capture_output=True, timeout=LIMIT_S)
    (recording,) = [path for path in folder.iterdir() if path.is_dir()]
    ledger = measure_recording(SOURCE.read(recording)).ledger
    work = own_work(ledger)
    return (0.0 if work is None else float(work.mean()) / 1e6), find_pace_spread(ledger)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--variants", nargs="+", default=["healthy", "slow-collate", "slow-transform"])
    arguments = parser.parse_args()
    print(machine.in_words(machine.describe()))
    rows: dict[str, list[tuple[float, float]]] = {variant: [] for variant in arguments.variants}
    for _ in range(arguments.runs):
        for variant, seen in rows.items():
            with tempfile.TemporaryDirectory(prefix="pace-") as folder:
                seen.append(run(variant, Path(folder)))
    for variant, seen in rows.items():
        between = statistics.stdev(math.log(work) for work, _ in seen)
        within = math.sqrt(statistics.fmean(spread**2 for _, spread in seen))
        print(f"{variant}: {between:.3f} between runs, {within:.3f} between eighths of a run")


if __name__ == "__main__":
    main()
