"""Do the intervals of `slowstep bench` hold, over starts of one script? Simulated: nothing is timed, the numbers are the same anywhere.

Each start of a training has a pace of its own, as far from the mean as starts were measured to be (`between_starts.py`), and the noise of
`coverage_noise.py` within it. Its compute alone is estimated as `slowstep bench` does: from its own blocks, with the spread of starts.
Printed, in %: intervals that hold the mean over starts, and pairs of starts whose intervals exclude each other.

python benchmarks/coverage_starts.py [--starts 400]
"""

from __future__ import annotations

import argparse

import numpy as np
from coverage_noise import NOISES, step_times

from slowstep.calibration.between_runs import BETWEEN_STARTS
from slowstep.prove.bench.over_starts import over_starts
from slowstep.prove.stats.design import FEWEST_STEPS
from slowstep.prove.stats.figures import Figure, ratio

BLOCKS = (8, 20, 60)
# Blocks of two other arms lie between those of one.
ARMS = 3
SETTLING = 1


def figures(name: str, blocks: int, starts: int) -> tuple[list[Figure], float]:
    """Steps per second of each start by its own blocks, and their mean over starts."""
    per_block = FEWEST_STEPS + SETTLING
    times = step_times(NOISES[name], np.random.default_rng(blocks), starts, blocks * ARMS * per_block)
    ns = times.reshape(starts, blocks, ARMS, per_block)[:, :, 0, SETTLING:].sum(axis=2)
    pace = np.exp(np.random.default_rng(blocks + 1).normal(0.0, BETWEEN_STARTS.value, starts))
    found = [ratio(np.full(blocks, float(FEWEST_STEPS)), row / own) for row, own in zip(ns, pace, strict=True)]
    return [each for each in found if each is not None], FEWEST_STEPS / float(ns.mean())


def row(found: list[Figure], truth: float) -> str:
    """What share of them holds the truth, and what share of neighbours excludes each other."""
    held = sum(each.low <= truth <= each.high for each in found) / len(found)
    pairs = list(zip(found[::2], found[1::2], strict=False))
    apart = sum(one.high < other.low or other.high < one.low for one, other in pairs) / len(pairs)
    return f"{100 * held:.1f} | {100 * apart:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=400)
    starts = parser.parse_args().starts
    print("| noise | blocks | of one process: hold | exclude each other | over starts: hold | exclude each other |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in NOISES:
        for blocks in BLOCKS:
            found, truth = figures(name, blocks, starts)
            print(f"| {name} | {blocks} | {row(found, truth)} | {row([over_starts(each) for each in found], truth)} |", flush=True)


if __name__ == "__main__":
    main()
