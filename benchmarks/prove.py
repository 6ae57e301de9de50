"""Are the proofs right? For each variant of the case study the gain that `slowstep prove` measures, beside the gain of really removing the
problem: plain runs of the script with the problem and without it. All interleaved, in random order, in one run of this benchmark.

Also levers that answer nothing (more prefetched where nothing is waited for must measure 1), and the healthy base, of which nothing may be
proved more often than the stated error rate allows. Writes `results/prove-<date>.json` and `prove.md`. Exit code 1 if the bar is missed, 2
if a run failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from case_study import SLOWSTEP, TRAIN, ChildFailed, run_limited
from prove_page import page
from prove_score import misses

HERE = Path(__file__).resolve().parent
# Pairs of plain runs beside each experiment. One run takes seconds, and a machine may be a fifth slower a minute later.
PLAIN_PAIRS = 3
# More steps than an experiment takes: it is ended from outside.
ENDLESS = 1_000_000
BASE_LEVERS = ("workers=2", "validation-off", "logging-off", "checkpoint-off", "pin-memory", "prefetch=4")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A lever on a variant. `fix` are the flags of the form without the problem, None where the lever must gain nothing.

    A mocked loader on a slow callback has one: batches made before. Where cores are few, no worker takes one from the training then.
    """

    variant: str
    lever: str
    fix: tuple[str, ...] | None

    @property
    def name(self) -> str:
        """The row of the page."""
        return f"{self.variant}, {self.lever}"


# Not among them: variants that no lever removes the problem of, and a history that grows (what it costs hangs on how many steps there were,
# which in an experiment are more than in a plain run).
CASES = (
    Case(variant="serial-loader", lever="workers=1", fix=("--workers", "1")),
    Case(variant="too-few-workers", lever="workers=4", fix=("--workers", "4")),
    Case(variant="slow-collate", lever="swap=data:collate_slow=torch.utils.data:default_collate", fix=("--collate", "default")),
    Case(variant="slow-transform", lever="swap=data:augment_slow=data:augment_default", fix=("--augment", "default")),
    Case(variant="small-batch", lever="batch-size=16", fix=("--batch-size", "16")),
    Case(variant="slow-callback", lever="stub=train:save_mask_images", fix=("--post-process", "off")),
    Case(variant="blocking-checkpoint", lever="checkpoint-off", fix=("--checkpoint-every", "0")),
    Case(
        variant="inefficient-operation",
        lever="swap=work_problems:edge_weights_pixel_by_pixel=work_problems:edge_weights",
        fix=("--edge-weights", "fast"),
    ),
    Case(variant="chatty-logging", lever="stub=work_problems:log_every_channel", fix=("--log-channels", "off")),
    Case(variant="frequent-validation", lever="validation-off:every=2", fix=("--validate-every", "10")),
    Case(variant="worker-restart", lever="persistent-workers", fix=("--persistent", "on")),
    Case(variant="too-many-threads", lever="threads=2", fix=("--threads", "2")),
    Case(variant="healthy", lever="mock-loader", fix=("--input", "made-before")),
    Case(variant="slow-callback", lever="mock-loader", fix=("--input", "made-before")),
    Case(variant="inefficient-operation", lever="prefetch=4", fix=None),
)


def prove(variant: str, levers: tuple[str, ...], budget: str, limit_s: float) -> dict[str, Any]:
    """The experiments of one `slowstep prove`, and how long it took. Raises ChildFailed."""
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        report = Path(folder) / "report.json"
        words = [str(SLOWSTEP), "prove", "--json", str(report), "--out", folder, "--budget", budget, "--levers", ",".join(levers)]
        started = time.perf_counter()
        try:
            run_limited([*words, str(TRAIN), "--variant", variant, "--steps", str(ENDLESS)], folder, limit_s)
        except ChildFailed:
            # Not trustworthy is an answer too: it ends with 4 and a report.
            if not report.exists():
                raise
        took_s = time.perf_counter() - started
        document = json.loads(report.read_text())
        return {"took_s": round(took_s, 1), "experiment": document["run"].get("experiment"), "rows": document["experiments"]}


def plain(variant: str, flags: tuple[str, ...], limit_s: float) -> float:
    """Samples/s that the script itself says, run without slowstep. Raises ChildFailed."""
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        out = run_limited([sys.executable, str(TRAIN), "--variant", variant, *flags], folder, limit_s)
    return float(json.loads(out.splitlines()[-1])["samples_per_s"])


def one_round(cases: list[Case], draw: random.Random, budget: str, limit_s: float) -> list[dict[str, Any]]:
    """One row a case, in random order: the experiment between pairs of plain runs."""
    rows = []
    for case in draw.sample(cases, len(cases)):
        row: dict[str, Any] = {"case": case.name, "variant": case.variant, "lever": case.lever}
        pairs = 0 if case.fix is None else PLAIN_PAIRS
        row["plain"] = [plain_pair(case, draw, limit_s) for _ in range(pairs // 2)]
        row["prove"] = prove(case.variant, (case.lever,), budget, limit_s)
        row["plain"] += [plain_pair(case, draw, limit_s) for _ in range(pairs - pairs // 2)]
        print(f"{case.name:70} true {true_gains(row)}  measured {gain_of(row)}  {row['prove']['took_s']} s", flush=True)
        rows.append(row)
    return rows


def plain_pair(case: Case, draw: random.Random, limit_s: float) -> dict[str, float]:
    """Samples/s of the plain script with the problem and without it, in random order. Raises ChildFailed."""
    flags = {"problem": (), "fixed": case.fix or ()}
    return {form: plain(case.variant, flags[form], limit_s) for form in draw.sample(sorted(flags), 2)}


def true_gains(row: dict[str, Any]) -> list[float]:
    """Of each pair of plain runs."""
    return [round(pair["fixed"] / pair["problem"], 2) for pair in row["plain"]]


def gain_of(row: dict[str, Any]) -> list[float | None]:
    """Value, low and high of the gain that was measured; empty where none was."""
    gain = next((each["gain"] for each in row["prove"]["rows"] if each["lever"] == row["lever"]), None)
    return [gain[end] and round(gain[end], 3) for end in ("value", "low", "high")] if gain else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--healthy", type=int, default=20, help="runs of the healthy base with all of its levers")
    parser.add_argument("--cases", nargs="*", help="those whose name holds one of these words (default: all)")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one run may take")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--results", type=Path, help="file to write (default: of today, or the one of --onto)")
    parser.add_argument("--onto", type=Path, help="results of earlier sittings, to which these rounds are added")
    given = parser.parse_args()
    cases = [case for case in CASES if not given.cases or any(word in case.name for word in given.cases)]
    draw = random.Random(given.seed)
    today = datetime.now(UTC).date().isoformat()
    results = given.results or given.onto or HERE / "results" / f"prove-{today}.json"
    raw: dict[str, Any] = json.loads(given.onto.read_text()) if given.onto else {"sittings": [], "rows": [], "healthy": []}
    raw["sittings"].append({"date": today, "seed": given.seed, "budget": given.budget, "machine": machine.describe()})
    try:
        for number in range(max(given.rounds, given.healthy)):
            raw["rows"] += one_round(cases, draw, given.budget, given.limit) if number < given.rounds else []
            if number < given.healthy:
                raw["healthy"].append(prove("healthy", BASE_LEVERS, given.budget, given.limit))
                print("healthy:", [row["verdict"] for row in raw["healthy"][-1]["rows"]], flush=True)
            results.write_text(json.dumps(raw, indent=1) + "\n")
    except ChildFailed as error:
        print(error, file=sys.stderr)
        return 2
    text = page(results.name, raw)
    (HERE / "prove.md").write_text(text)
    print(text)
    return 1 if misses(raw) else 0


if __name__ == "__main__":
    sys.exit(main())
