"""The accuracy gate: every variant of the case study with and without its problem, interleaved, beside what `slowstep run` predicted.

Exit code 1 if the gate is missed, 2 if a run failed. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from accuracy_page import draw
from accuracy_score import to_score
from case_study import BASE, VARIANTS, ChildFailed, Variant, run_recorded, says

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "accuracy.md"
# Fixed forms that are not the base itself; everything else takes the example's own number of steps, about 7 s on two cores of 2024.
FIXED_STEPS = {
    "too-few-workers": 190,
    "network-input": 190,
    "overloaded-preprocessing": 120,
    "many-small-files": 190,
    "inefficient-operation": 190,
    "frequent-validation": 170,
    "worker-restart": 190,
    "growing-history": 190,
    "too-many-threads": 150,
}
SMALL_BATCH_SAMPLES = 3000
# Fixed forms that have the number which the finding assumes: the lever of its fix, and what the very first fixed run takes.
ASSUMED = {"small-batch": ("batch-size", 24), "too-few-workers": ("workers", 4)}


class Rounds:
    """Runs the arms one after the other and keeps every report."""

    def __init__(self, *, variants: list[Variant], steps: int | None, limit_s: float, seed: int, data: Path | None) -> None:
        self.variants = variants
        self.steps = steps
        self.limit_s = limit_s
        self.data = data
        self.random = random.Random(seed)
        self.assumed = {name: first for name, (_, first) in ASSUMED.items()}
        self.problems: list[dict[str, Any]] = []
        self.fixed: list[dict[str, Any]] = []

    def round(self, index: int) -> None:
        """One run of every problem, its fixed runs around it, in random order."""
        chained = [variant for variant in self.variants if variant.fixed_is_base]
        self.random.shuffle(chained)
        groups = [[variant] for variant in self.variants if not variant.fixed_is_base] + ([chained] if chained else [])
        self.random.shuffle(groups)
        for group in groups:
            self._group(index, group)

    def _group(self, index: int, group: list[Variant]) -> None:
        """F P F for one variant, F P F P F ... for those that share the healthy base as their fixed form."""
        before = self._run_fixed(index, group[0], base=group[0].fixed_is_base)
        for variant in group:
            problem = self._run(variant.name)
            self._note(index, variant.name, problem)
            if variant.name in ASSUMED:
                self.assumed[variant.name] = number_assumed(problem, ASSUMED[variant.name][0]) or self.assumed[variant.name]
            after = self._run_fixed(index, variant, base=False)
            beside = [row for row in (before, after) if row["flags"] == after["flags"]]
            self.problems.append(
                {
                    "round": index,
                    "variant": variant.name,
                    "problem": problem,
                    "fixed_samples_per_s": [row["report"]["throughput"]["samples_per_s"] for row in beside],
                }
            )
            before = after

    def _run_fixed(self, index: int, variant: Variant, *, base: bool) -> dict[str, Any]:
        if variant.name in ASSUMED:
            number = self.assumed[variant.name]
            steps = FIXED_STEPS.get(variant.name, SMALL_BATCH_SAMPLES // number)
            run = self._run(variant.name, f"--{ASSUMED[variant.name][0]}", str(number), steps=steps)
        elif variant.fixed_is_base:
            run = self._run(BASE)
        else:
            run = self._run(variant.name, *variant.fix, steps=FIXED_STEPS[variant.name])
        of = BASE if variant.fixed_is_base else variant.name
        self._note(index, f"  fixed {of}", run)
        self.fixed.append({"round": index, "of": of, "base_of_round": base, "run": run})
        return run

    def _run(self, name: str, *flags: str, steps: int | None = None) -> dict[str, Any]:
        wanted = self.steps or steps
        run = run_recorded(name, *flags, *(("--steps", str(wanted)) if wanted else ()), data=self.data, limit_s=self.limit_s)
        return run | {"load": os.getloadavg()[0]}

    def _note(self, index: int, label: str, run: dict[str, Any]) -> None:
        report = run["report"]
        gain = report["findings"][0]["gain"]["predicted"] if report["findings"] else None
        speed = report["throughput"]["samples_per_s"]
        print(
            f"round {index} {label:30} {says(report):20} {speed or float('nan'):6.0f} samples/s  predicted {gain and round(gain, 2)}"
            f"  {run['took_s']} s",
            flush=True,
        )


def number_assumed(run: dict[str, Any], lever: str) -> int | None:
    """The number that the first finding predicts its gain for, by the lever of its fix (`workers=4`)."""
    for fix in run["report"]["findings"][0]["fixes"] if run["report"]["findings"] else ():
        name, _, number = (fix["lever"] or "").partition("=")
        if name == lever:
            return int(number)
    return None


def foreign_share(before: tuple[int, int], after: tuple[int, int], own_s: float, cores: int, wall_s: float) -> float:
    """Share of the allowed cores that other processes kept busy."""
    busy = (after[0] - before[0]) / max(after[1] - before[1], 1) * (os.cpu_count() or cores)
    return max(0.0, busy - own_s / wall_s) / cores


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    chosen = [variant for variant in VARIANTS if not arguments.variants or variant.name in arguments.variants]
    rounds = Rounds(variants=chosen, steps=arguments.steps, limit_s=arguments.limit, seed=arguments.seed, data=arguments.data)
    earlier = json.loads(arguments.onto.read_text()) if arguments.onto else {"sittings": [], "problems": [], "fixed": []}
    done, wanted = sum(sitting["rounds"] for sitting in earlier["sittings"]), 1 if arguments.quick else arguments.rounds
    facts = machine.describe()
    started, ticks, own = time.perf_counter(), machine.busy_ticks(), os.times()
    ended_before = done
    try:
        for index in range(done, done + wanted):
            rounds.round(index)
            ended_before = index + 1
    finally:
        ended = os.times()
        own_s = sum(ended[:4]) - sum(own[:4])
        wall_s = time.perf_counter() - started
        sitting = {
            "date": datetime.now(UTC).date().isoformat(),
            "rounds": ended_before - done,
            "seed": arguments.seed,
            "machine": facts,
            "foreign_share": foreign_share(ticks, machine.busy_ticks(), own_s, facts["cores"], wall_s),
        }
        raw = {
            "sittings": [*earlier["sittings"], sitting],
            # A round that was broken off is no round.
            "problems": earlier["problems"] + [row for row in rounds.problems if row["round"] < ended_before],
            "fixed": earlier["fixed"] + [row for row in rounds.fixed if row["round"] < ended_before],
        }
        arguments.results.parent.mkdir(parents=True, exist_ok=True)
        arguments.results.write_text(json.dumps(raw, indent=1) + "\n")
    return raw


def with_newer(raw: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """The results with those of the variants that were measured again in the place of the older ones; the healthy base of both."""
    again = {row["variant"] for row in newer["problems"]}
    return {
        "sittings": [*raw["sittings"], *newer["sittings"]],
        "problems": [row for row in raw["problems"] if row["variant"] not in again] + newer["problems"],
        "fixed": [row for row in raw["fixed"] if row["of"] not in again] + newer["fixed"],
    }


def read_command_line() -> argparse.Namespace:
    today = datetime.now(UTC).date().isoformat()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--variants", nargs="*", choices=[variant.name for variant in VARIANTS], help="default: all")
    parser.add_argument("--steps", type=int, help="in every run (default: what takes about 7 s)")
    parser.add_argument("--quick", action="store_true", help="one round: does it work at all?")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that one run may take")
    parser.add_argument("--data", type=Path, help="where the pictures are kept (default: beside the example)")
    parser.add_argument("--results", type=Path, help="file to write (default: of today, or the one of --onto)")
    parser.add_argument("--onto", type=Path, help="results of earlier sittings, to which these rounds are added")
    parser.add_argument("--page", type=Path, help=f"default: {PAGE.name} in docs, for a complete run only")
    parser.add_argument("--draw", action="store_true", help="draw the page again from --results, without measuring")
    parser.add_argument(
        "--newer", type=Path, nargs="*", default=[], help="with --draw: results in the place of older ones of the same variants"
    )
    given = parser.parse_args()
    if given.newer and not given.draw:
        parser.error("--newer is for --draw; rounds are added to earlier ones by --onto")
    given.results = given.results or given.onto or HERE / "results" / f"accuracy-{today}.json"
    return given


def read(arguments: argparse.Namespace) -> dict[str, Any]:
    raw = json.loads(arguments.results.read_text())
    for newer in arguments.newer:
        raw = with_newer(raw, json.loads(newer.read_text()))
    return raw


def main() -> int:
    arguments = read_command_line()
    try:
        raw = read(arguments) if arguments.draw else measure(arguments)
    except ChildFailed as error:
        print(error, file=sys.stderr)
        return 2
    complete = arguments.draw or not (arguments.quick or arguments.variants)
    page = arguments.page or (PAGE if complete else None)
    text = draw(raw, [each.name for each in (arguments.results, *arguments.newer)])
    print(text)
    if page:
        page.write_text(text)
    return 1 if to_score(raw).misses() else 0


if __name__ == "__main__":
    sys.exit(main())
