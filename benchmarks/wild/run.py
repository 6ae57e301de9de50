"""The wild suite: trainings re-enacted from public reports, what fixing each truly gains, and what `slowstep run` says of it.

See benchmarks/wild/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import packages_distributions
from pathlib import Path
from types import MappingProxyType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402
from accuracy import foreign_share  # noqa: E402
from case_study import SLOWSTEP, ChildFailed, excerpt, run_limited  # noqa: E402
from page import draw, summary, true_of, with_newer  # noqa: E402
from suite import Case, read_cases  # noqa: E402

RESULTS = HERE.parent / "results"
PAGE = HERE / "table.md"
# The counts alone: what docs/accuracy.md begins with.
SUMMARY = HERE / "summary.md"
# The given trainings were written before the others, and say it so.
FINISHED = re.compile(r"^finished steps=\d+ samples=(\d+) seconds=([\d.]+)$")
# Threads of OpenMP that spin while they wait slow whatever else runs on two cores; nothing is looked up on a hub.
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}


def samples_per_s(out: str) -> float:
    """What a script says of itself: its last line of JSON, or the line of the given ones. Raises `ChildFailed`."""
    for line in reversed(out.splitlines()):
        finished = FINISHED.match(line)
        if finished:
            return int(finished[1]) / float(finished[2])
        if line.startswith("{") and '"samples_per_s"' in line:
            return float(json.loads(line)["samples_per_s"])
    raise ChildFailed(f"the script printed no samples_per_s; its last words: {out[-300:]!r}")


class Runner:
    """Runs trainings one after the other: plainly, fixed and recorded."""

    def __init__(self, *, pairs: int, steps: int | None, limit_s: float, recordings: Path | None = None) -> None:
        self.pairs = pairs
        self.steps = steps
        self.limit_s = limit_s
        self.recordings = recordings

    def described(self) -> dict[str, Any]:
        """What the results say of how trainings were run."""
        return {"pairs": self.pairs, "steps": self.steps}

    def case(self, case: Case) -> dict[str, Any]:
        """Pairs of base and fixed, half of them before the recorded run and half after it; none of a healthy one, which has no fix."""
        pairs = self.pairs if case.state == "bottleneck" else 0
        found = [self.pair(case, fixed_first=bool(i % 2)) for i in range((pairs + 1) // 2)]
        report = self.recorded(case)
        found += [self.pair(case, fixed_first=bool(i % 2)) for i in range((pairs + 1) // 2, pairs)]
        return {"case": case.name, "pairs": found, "report": report}

    def pair(self, case: Case, *, fixed_first: bool) -> dict[str, float]:
        order = ("fixed", "base") if fixed_first else ("base", "fixed")
        return {arm: self.plain(case, fixed=arm == "fixed") for arm in order}

    def words(self, case: Case, *, fixed: bool) -> list[str]:
        steps = ["--steps", str(self.steps)] if self.steps else []
        return [sys.executable, str(case.script), *(["--fixed"] if fixed else []), *steps]

    def plain(self, case: Case, *, fixed: bool) -> float:
        with tempfile.TemporaryDirectory(prefix="wild-") as folder:
            return samples_per_s(run_limited(self.words(case, fixed=fixed), folder, self.limit_s))

    def recorded(self, case: Case) -> dict[str, Any]:
        """What is said of a case, from one run of its base."""
        with tempfile.TemporaryDirectory(prefix="wild-") as folder:
            report = Path(folder) / "report.json"
            kept = self.recordings / case.name if self.recordings else folder
            options = ["run", "--json", str(report), "--out", str(kept)]
            said = run_limited([str(SLOWSTEP), *options, *self.words(case, fixed=False)], folder, self.limit_s)
            if not report.exists():
                raise ChildFailed(f"slowstep wrote no report; its last words: {said[-300:]!r}")
            return excerpt(json.loads(report.read_text()))

    def line_of(self, row: dict[str, Any]) -> str:
        """A line for the terminal, so that one can see it go on."""
        verdict, findings = row["report"]["verdict"], row["report"]["findings"]
        gain = findings[0]["gain"]["predicted"] if findings else None
        said = f"{verdict['state']:12} {verdict['stage'] or '-':12} {verdict['rule'] or '-':26}"
        return f"{row['case']:24} {said} predicted {shown(gain)} true {shown(true_of(row))}"


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def measure(cases: list[Case], runner: Runner, arguments: argparse.Namespace, keep: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """All rows, one a case and round, in random order, kept after each; a case that failed is kept with what it said."""
    order, load = random.Random(arguments.seed), Load()
    raw = head(cases, runner, arguments)
    for index in range(arguments.rounds):
        for case in order.sample(cases, len(cases)):
            try:
                row = {"round": index, "blind": case.blind, **runner.case(case)}
            except ChildFailed as error:
                raw["failed"].append({"round": index, "case": case.name, "error": str(error)[-1000:]})
                print(f"{case.name:24} FAILED: {str(error).splitlines()[-1]}", flush=True)
            else:
                raw["rows"].append(row)
                print(runner.line_of(row), flush=True)
            raw["foreign_share"] = load.foreign_share(raw["machine"]["cores"])
            keep(raw)
    return raw


def head(cases: list[Case], runner: Runner, arguments: argparse.Namespace) -> dict[str, Any]:
    """What is known before the first run."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "seed": arguments.seed,
        "rounds": arguments.rounds,
        **runner.described(),
        "machine": machine.describe(),
        "packages": {name: version_of(name) for name in sorted({package for case in cases for package in case.needs})},
        "environment": ENVIRONMENT,
        "foreign_share": 0.0,
        "rows": [],
        "failed": [],
    }


def version_of(package: str) -> str | None:
    """Of what is imported by this name, which may be installed by another (tensorflow-cpu)."""
    return next((machine.installed_version(name) for name in packages_distributions().get(package, ())), None)


class Load:
    """How busy others keep the machine, since this was made."""

    def __init__(self) -> None:
        self.started, self.ticks, self.own = time.perf_counter(), machine.busy_ticks(), os.times()

    def foreign_share(self, cores: int) -> float:
        own_s = sum(os.times()[:4]) - sum(self.own[:4])
        return foreign_share(self.ticks, machine.busy_ticks(), own_s, cores, time.perf_counter() - self.started)


def chosen(arguments: argparse.Namespace, cases: list[Case]) -> list[Case]:
    """What is asked for and can be run here; what cannot is said."""
    known = {case.name for case in cases}
    unknown = set(arguments.cases or ()) - known
    if unknown:
        raise SystemExit(f"no case is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    wanted = [case for case in cases if not arguments.cases or case.name in arguments.cases]
    for case in wanted:
        if case.missing:
            print(f"{case.name}: left out, {', '.join(case.missing)} is not installed (benchmarks/wild/requirements.txt)", flush=True)
    return [case for case in wanted if not case.missing]


def command_line(description: str, *, results: str, page: Path) -> argparse.ArgumentParser:
    """Options of whatever runs the trainings; results and page are what it writes unless told otherwise."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--blind", action="store_true", help="the blind third too: scored apart, and never tuned to")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=2, help="pairs of base and fixed runs beside each recorded one")
    parser.add_argument("--quick", action="store_true", help="one round with one pair")
    parser.add_argument("--steps", type=int, help="of each run, to try whether all of it works; its figures mean nothing")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a run may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help=f"default: benchmarks/results/{results}-<date>.json")
    parser.add_argument("--draw", action="store_true", help="only draw the table, from --results")
    parser.add_argument(
        "--newer", type=Path, nargs="*", default=[], help="with --draw: results in the place of older ones of the same trainings"
    )
    parser.add_argument("--page", type=Path, help=f"where the table goes; after a run of all cases {page.name} beside this script")
    return parser


def read_command_line(parser: argparse.ArgumentParser) -> argparse.Namespace:
    given = parser.parse_args()
    if given.draw and not given.results:
        parser.error("--draw needs --results FILE")
    if given.newer and not given.draw:
        parser.error("--newer is for --draw")
    if given.quick:
        given.rounds = given.pairs = 1
    return given


def carry_out(
    arguments: argparse.Namespace,
    *,
    name: str,
    page: Path,
    runner_of: Callable[[], Runner],
    drawn: Callable[..., str],
    beside: Mapping[Path, Callable[..., str]] = MappingProxyType({}),
    takes: Callable[[Case], bool] = lambda case: True,
) -> int:
    """Run what is asked for of the cases that are taken or read its results, and draw the table. Returns the exit code.

    Whenever `page` is written, so are the pages `beside` it.
    """
    os.environ.update(ENVIRONMENT)
    cases = [case for case in read_cases(blind=False) if takes(case)]
    blind = [case for case in read_cases(blind=True) if takes(case)] if arguments.blind else []
    results = arguments.results or RESULTS / f"{name}-{datetime.now(UTC).date().isoformat()}.json"
    if arguments.draw:
        raw = drawn_from(results, arguments.newer)
    else:
        wanted = chosen(arguments, cases + blind)
        raw = measure(wanted, runner_of(), arguments, lambda raw: results.write_text(json.dumps(raw, indent=1) + "\n"))
    text = drawn(raw, results.name, cases, blind)
    print(text)
    complete = not (arguments.draw or arguments.quick or arguments.cases or arguments.steps)
    where = arguments.page or (page if complete else None)
    if where:
        where.write_text(text)
    if where and where.resolve() == page:
        for other, drawn_there in beside.items():
            other.write_text(drawn_there(raw, results.name, cases, blind))
    return 2 if raw["failed"] else 0


def drawn_from(results: Path, newer: list[Path]) -> dict[str, Any]:
    """The results of one sitting, or of several."""
    raw = json.loads(results.read_text())
    for each in newer:
        raw = with_newer(raw, results.name, json.loads(each.read_text()), each.name)
    return raw


def main() -> int:
    parser = command_line(__doc__, results="wild", page=PAGE)
    parser.add_argument("--recordings", type=Path, help="keep each recording in a folder of this one, to analyze it again after a change")
    arguments = read_command_line(parser)

    def runner_of() -> Runner:
        recordings = arguments.recordings.resolve() if arguments.recordings else None
        return Runner(pairs=arguments.pairs, steps=arguments.steps, limit_s=arguments.limit, recordings=recordings)

    return carry_out(arguments, name="wild", page=PAGE, runner_of=runner_of, drawn=draw, beside={SUMMARY: summary})


if __name__ == "__main__":
    sys.exit(main())
