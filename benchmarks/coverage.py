"""Do the intervals of experiments hold what they promise? Simulated trainings with known gains: how often an interval holds the true one.

Nothing is timed: the numbers are the same on every machine. Prints tables of experiments.md.

python benchmarks/coverage.py [--trainings 1000] [--experiments 400]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from coverage_methods import METHODS, Floats
from coverage_noise import NOISES, step_times
from coverage_stop import ARMS, HEADER, experiments

from slowstep.prove.stats.design import FEWEST_STEPS, schedule

TRACE = Path(__file__).parent / "results/steps-2026-11-21.json"
SETTLING = 1
ROUNDS = (4, 8, 12, 20, 30)
STEP_MS = 20.0
BUDGET_S = 60.0

# Shape (trainings, steps) of step times, from a seed.
Times = Callable[[int, int, int], Floats]


@dataclass(frozen=True, kw_only=True)
class Rare:
    """What comes now and then and takes so many usual steps more on average, in the training as it is and not with the lever."""

    name: str
    share: float
    size: float


RARE = (
    Rare(name="1 step in 10 takes 5 more", share=0.1, size=5.0),
    Rare(name="1 step in 50 takes 10 more", share=0.02, size=10.0),
)


@dataclass
class Tally:
    """Of one method: how often the true gain lay outside, and half the widths of the intervals."""

    missed: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, ends: tuple[float, float], truth: float) -> None:
        self.missed += not ends[0] <= truth <= ends[1]
        self.widths.append((ends[1] - ends[0]) / 2)

    def shown(self) -> str:
        held = 1 - self.missed / len(self.widths)
        return f"{100 * held:.1f} (±{100 * math.expm1(float(np.median(self.widths))):.0f})"


def made(name: str) -> Times:
    return lambda seed, trainings, steps: step_times(NOISES[name], np.random.default_rng(seed), trainings, steps)


def recorded(corrected: bool) -> Times:
    """Stretches of a real training, each beginning anywhere in it."""
    trace = json.loads(TRACE.read_text(encoding="utf-8"))
    step, delay = np.array(trace["step_us"], float), np.array(trace["delay_us"], float)
    series = np.maximum(step - delay, 1.0) if corrected else step

    def times(seed: int, trainings: int, steps: int) -> Floats:
        begins = np.random.default_rng(seed).integers(0, len(series), trainings)
        return np.asarray(series[(begins[:, None] + np.arange(steps)) % len(series)])

    return times


def every_noise() -> dict[str, Times]:
    real = {"recorded on a busy machine, wall": recorded(False), "the same, corrected": recorded(True)}
    return {name: made(name) for name in NOISES} | real


def tables(times: Times, rare: Rare | None, rounds: int, trainings: int, arms: int, seed: int) -> Floats:
    """Sums of blocks by training, round and arm: each training has an order of its own, and what is rare hits the first arm only."""
    orders = np.array([schedule(arms, rounds, 1000 * seed + number) for number in range(trainings)])
    per_block = FEWEST_STEPS + SETTLING
    found = times(seed, trainings, orders.shape[1] * per_block)
    if rare is not None:
        rng = np.random.default_rng(seed + 1)
        events = (rng.random(found.shape) < rare.share) * rng.exponential(rare.size * found.mean(), found.shape)
        found = found + events * (np.repeat(orders, per_block, axis=1) == 0)
    table = np.zeros((trainings, rounds, arms))
    blocks = found.reshape(trainings, orders.shape[1], per_block)[:, :, SETTLING:].sum(axis=2)
    table[np.arange(trainings)[:, None], np.arange(orders.shape[1]) // arms, orders] = blocks
    return table


def coverage_row(times: Times, rare: Rare | None, rounds: int, trainings: int) -> str:
    truth = 0.0 if rare is None else math.log1p(rare.share * rare.size)
    tallies = {method: Tally() for method in METHODS}
    steps = np.full(rounds, float(FEWEST_STEPS))
    for table in tables(times, rare, rounds, trainings, 3, rounds):
        sums = np.column_stack([table[:, 0], steps, table[:, 1], steps])
        for method, ends in METHODS.items():
            tallies[method].add(ends(sums), truth)
    return " | ".join(tally.shown() for tally in tallies.values())


def print_coverage(trainings: int) -> None:
    print("| noise | rounds | " + " | ".join(METHODS) + " |")
    print("| --- | --- |" + " --- |" * len(METHODS))
    cases: list[tuple[str, Times, Rare | None]] = [(name, times, None) for name, times in every_noise().items()]
    cases += [(f"without delay; {rare.name}, not with the lever", made("without delay"), rare) for rare in RARE]
    for name, times, rare in cases:
        for rounds in ROUNDS:
            print(f"| {name} | {rounds} | {coverage_row(times, rare, rounds, trainings)} |", flush=True)


def print_experiments(count: int) -> None:
    print(f"| noise | true gain of all six | {HEADER} |")
    print("| --- | --- |" + " --- |" * (HEADER.count("|") + 1))
    most = int(BUDGET_S * 1000 / (ARMS * (FEWEST_STEPS + SETTLING) * STEP_MS))
    for name, times in every_noise().items():
        for gain in (1.0, 1.03):
            found = experiments(lambda number, times=times: tables(times, None, most, 1, ARMS, number)[0], count, gain)
            print(f"| {name} | {gain} | {found.shown()} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainings", type=int, default=1000)
    parser.add_argument("--experiments", type=int, default=400)
    arguments = parser.parse_args()
    print_coverage(arguments.trainings)
    print()
    print_experiments(arguments.experiments)


if __name__ == "__main__":
    main()
