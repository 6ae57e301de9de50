"""Are gains proved in 4 to 8 rounds that are none? Simulated trainings with known gains: the same numbers on every machine.

One lever, judged as `slowstep prove` does. Printed, in %: experiments that say "proved" where the true gain is just 1.03 (2.5 may), and
where it is 1.5, 2 and 5.8.

python benchmarks/coverage_few.py [--experiments 4000]
"""

from __future__ import annotations

import argparse

import numpy as np
from coverage import Times, every_noise, tables
from coverage_methods import Floats

from slowstep.prove.stats.design import MIN_ROUNDS
from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.intervals import FEWEST_ROUNDS, log_ratio
from slowstep.prove.stats.judging import WORTH, judge_all

ARMS, LEVER = 3, 2
GAINS = (WORTH, 1.5, 2.0, 5.8)


def is_proved(sums: Floats) -> bool:
    """By the rough interval first, which lies within the whole one."""
    return all(_is_proved(sums, rough=rough) for rough in (True, False))


def _is_proved(sums: Floats, *, rough: bool) -> bool:
    ratio, rounds = log_ratio(sums, rough=rough), len(sums)
    found = Estimate(
        arm=LEVER, rounds=rounds, steps=rounds, wall=ratio.interval(), corrected=None, uses_corrected=False, per="step", log_ratio=ratio
    )
    return judge_all({LEVER: found})[LEVER].verdict == "proved"


def row(times: Times, rounds: int, count: int) -> str:
    one = np.ones(rounds)
    found = tables(times, None, rounds, count, ARMS, rounds)
    shares = []
    for gain in GAINS:
        # What a gain of no worth is proved in is counted in all of them, how often a clear one is in a tenth.
        some = found if gain == WORTH else found[: max(count // 10, 1)]
        shares.append(sum(is_proved(np.column_stack([table[:, 0], one, table[:, LEVER] / gain, one])) for table in some) / len(some))
    return " | ".join(f"{100 * share:.2f}" if gain == WORTH else f"{100 * share:.0f}" for gain, share in zip(GAINS, shares, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=4000)
    count = parser.parse_args().experiments
    print("| noise | rounds | " + " | ".join(f"true gain {gain:g}" for gain in GAINS) + " |")
    print("| --- | --- |" + " --- |" * len(GAINS))
    for name, times in every_noise().items():
        for rounds in range(FEWEST_ROUNDS, MIN_ROUNDS + 1):
            print(f"| {name} | {rounds} | {row(times, rounds, count)} |", flush=True)


if __name__ == "__main__":
    main()
