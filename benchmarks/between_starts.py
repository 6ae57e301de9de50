"""How much does a script's speed differ from one start to the next, where nothing else runs? From stored results: nothing is run here.

`accuracy.py` and `prove.py` start the same form of a script again and again, some of it right after each other. Of results that no page is
drawn from any more, the speeds alone are kept (`results/starts-*.json`). Pairs of neighbours are held against each other here:
|ln(one / other)| / sqrt(2) is how far a single start is off. Printed is the standard deviation of a normal distribution that has the same
median, and the same 90, 95 and 99 % of starts within.

python benchmarks/between_starts.py [RESULTS.json ...]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
# Shares of starts within, of which the deviation that a normal distribution then has is printed.
SHARES = (0.5, 0.9, 0.95, 0.99)
# What slowstep.calibration.between_runs.BETWEEN_STARTS is.
TAKEN = 0.95


def rates(results: dict[str, Any]) -> Iterator[list[float]]:
    """Samples/s of starts of the same form of a script, one right after the other or with one other run between."""
    for row in results.get("problems", []):
        yield [rate for rate in row["fixed_samples_per_s"] if rate]
    for kept in results.get("results", []):
        yield from kept["samples_per_s"]
    for row in results.get("rows", []):
        for form in ("problem", "fixed"):
            yield [pair[form] for pair in row["plain"]]


def deviations(results: dict[str, Any]) -> list[float]:
    """How far single starts are off, as differences of logarithms."""
    pairs = (pair for each in rates(results) for pair in itertools.pairwise(each))
    return [abs(math.log(one / other)) / math.sqrt(2) for one, other in pairs]


def deviation(found: list[float], share: float) -> float:
    """The standard deviation of a normal distribution that has this share of starts within as much as was found."""
    ordered = sorted(found)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] / statistics.NormalDist().inv_cdf((1 + share) / 2)


def stored() -> list[Path]:
    """All results that hold repeated starts."""
    return sorted(path for name in ("accuracy", "prove", "starts") for path in RESULTS.glob(f"{name}-*.json"))


def read(paths: list[Path]) -> list[float]:
    """The deviations in all of these results."""
    return [each for path in paths for each in deviations(json.loads(path.read_text(encoding="utf-8")))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*")
    paths = parser.parse_args().results or stored()
    print("| results | pairs of starts |" + " |".join(f" {share:.0%}" for share in SHARES) + " |")
    print("| --- | --- |" + " --- |" * len(SHARES))
    for name, found in [*((path.name, read([path])) for path in paths), ("all", read(paths))]:
        if found:
            print(f"| {name} | {len(found)} |" + " |".join(f" {deviation(found, share):.3f}" for share in SHARES) + " |")


if __name__ == "__main__":
    main()
