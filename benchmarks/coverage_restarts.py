"""Do intervals and verdicts of experiments hold where a script is started again and again? Simulated: the same numbers on every machine.

Each start of a training has a gain of its own, around the true one, and the noise of `coverage_noise.py` within it. Rounds of all starts
are pooled as `slowstep prove` does, and it ends as that does: at 5 %, by three starts at least, or with the budget's last start.
Printed are shares in % of the experiments that took a second start; "proved" is wrong where the mean gain over starts is just 1.03.

python benchmarks/coverage_restarts.py [--experiments 400] [--starts 2]
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from coverage import every_noise, tables
from coverage_methods import Floats

from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.intervals import FEWEST_ROUNDS, LogRatio, log_ratio
from slowstep.prove.stats.judging import WORTH, is_precise, judge_all

PRECISION = 0.05
# As is, control, one lever; rounds of a start, and how many starts a budget has room for.
ARMS, LEVER = 3, 2
STARTS = ((2, 2), (6, 2), (6, 3), (6, 6), (16, 4))
# Standard deviations of the logarithm of the gain from start to start.
APART = (0.0, 0.02, 0.06, 0.15)
NOISES = ("quiet", "without delay", "shared, with stalls", "the same, corrected")


def of_start(table: Floats, start: int, own: float) -> Floats:
    """Columns of sums by round, of a start whose lever gains so much more than others' do."""
    one = np.ones(len(table))
    return np.column_stack([table[:, 0], one, table[:, LEVER] / math.exp(own), one])


def estimated(columns: list[Floats]) -> Estimate:
    start = np.repeat(np.arange(len(columns)), [len(each) for each in columns])
    ratio: LogRatio = log_ratio(np.concatenate(columns), start=start)
    return Estimate(
        arm=LEVER, rounds=len(start), steps=len(start), wall=ratio.interval(), corrected=None, uses_corrected=False, per="step",
        log_ratio=ratio, starts=len(columns),
    )  # fmt: skip


def pooled(starts: list[Floats], owns: Floats) -> Estimate:
    """Of as many starts as it takes, and of no more than there are."""
    columns: list[Floats] = []
    for number, table in enumerate(starts):
        columns.append(of_start(table, number, float(owns[number])))
        if sum(map(len, columns)) < FEWEST_ROUNDS:
            continue
        found = estimated(columns)
        if is_precise({LEVER: found}, PRECISION):
            break
    return found


def row(name: str, rounds: int, starts: int, apart: float, count: int) -> str:
    times, draw = every_noise()[name], np.random.default_rng(7)
    held = proved = used = again = 0
    for number in range(count):
        tables_of = [tables(times, None, rounds, 1, ARMS, 1000 * number + start)[0] for start in range(starts)]
        found = pooled(tables_of, draw.normal(math.log(WORTH), apart, starts))
        if found.starts == 1:
            continue
        again += 1
        held += found.wall.low <= WORTH <= found.wall.high
        proved += judge_all({LEVER: found})[LEVER].verdict == "proved"
        used += found.starts
    if not again:
        return "0 | | |"
    return f"{100 * again / count:.0f} | {used / again:.1f} | {100 * held / again:.1f} | {100 * proved / again:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=400)
    parser.add_argument("--starts", type=int, help="only the rows with so many starts at most")
    asked = parser.parse_args()
    count = asked.experiments
    print(
        "| noise | rounds of a start | starts at most | starts differ by | started again | starts | intervals that hold | falsely proved |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in NOISES:
        for rounds, starts in (row for row in STARTS if asked.starts in (None, row[1])):
            for apart in APART:
                print(f"| {name} | {rounds} | {starts} | {apart:g} | {row(name, rounds, starts, apart, count)} |", flush=True)


if __name__ == "__main__":
    main()
