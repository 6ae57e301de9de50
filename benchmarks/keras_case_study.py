"""The variants of examples/keras_case_study beside its healthy base, in turns: how fast each is, and what `slowstep run` says of it.

See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
from case_study import SLOWSTEP, ChildFailed, excerpt, run_limited, says

HERE = Path(__file__).resolve().parent
TRAIN = HERE.parent / "examples" / "keras_case_study" / "train.py"
PAGE = HERE / "keras.md"
BASE = "healthy"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A planted problem, and the samples/s of the same in the case study that it follows, of 100 in its base.

    Chaim Rand, TensorFlow Performance Analysis, 2020, measured on one V100.
    """

    name: str
    there: int | None = None


VARIANTS = (
    Variant(name="small-batch", there=40),
    Variant(name="throttled-input", there=22),
    Variant(name="overloaded-preprocessing", there=25),
    Variant(name="python-in-input"),
    Variant(name="missing-prefetch"),
    Variant(name="inefficient-operation", there=96),
    Variant(name="slow-callback", there=43),
    Variant(name="retracing"),
    Variant(name="recompiling"),
)


def run(name: str, data: Path, limit_s: float) -> dict[str, Any]:
    """One recorded run: what the script says of its speed, and what of the report is worth keeping. Raises `ChildFailed`."""
    with tempfile.TemporaryDirectory(prefix="keras-") as folder:
        report = Path(folder) / "report.json"
        words = [str(SLOWSTEP), "run", "--json", str(report), "--out", folder, sys.executable, str(TRAIN), "--variant", name]
        out = run_limited([*words, "--data", str(data)], folder, limit_s)
        return {"script": json.loads(out.splitlines()[-1]), "report": excerpt(json.loads(report.read_text()))}


def measure(rounds: int, names: list[str], data: Path, limit_s: float) -> list[dict[str, Any]]:
    """A row for each variant and round: its run, and those of the base right before and after it."""
    rows, before = [], run(BASE, data, limit_s)
    for number in range(rounds):
        for variant in (each for each in VARIANTS if each.name in names):
            planted, after = run(variant.name, data, limit_s), run(BASE, data, limit_s)
            rows.append({"round": number, "variant": variant.name, "planted": planted, "beside": [before, after]})
            before = after
            print(f"round {number} {variant.name:25} {says(planted['report']):22} {of_base(rows[-1]):.2f} of the base", flush=True)
    return rows


def of_base(row: dict[str, Any]) -> float:
    """Samples/s of a planted problem, as a part of the base's beside it."""
    base = statistics.fmean(each["script"]["samples_per_s"] for each in row["beside"])
    return float(row["planted"]["script"]["samples_per_s"] / base)


def draw(raw: dict[str, Any]) -> str:
    """The page of what was measured."""
    lines = [
        "# The case study in Keras",
        "",
        f"`examples/keras_case_study`, {raw['date']}; {machine.in_words(raw['machine'])}. Samples/s as parts of those of the",
        "healthy base, whose runs lay right before and after; beside them those of the document that the case study follows (one V100).",
        "Medians over rounds, and what `slowstep run` said in each of them. The true gain is the base's speed over the variant's; of what",
        "a training would gain in other ways, such as with a larger batch than the base's, it is no measure.",
        "",
        "| problem | of the base | there | slowstep says | its gain | true |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for variant in VARIANTS:
        rows = [row for row in raw["rows"] if row["variant"] == variant.name]
        if rows:
            lines.append(_line(variant, rows))
    bases = [says(each["report"]) for row in raw["rows"] for each in row["beside"][1:]]
    called = ", ".join(f"{each} {bases.count(each)} times" for each in sorted(set(bases)))
    return "\n".join([*lines, "", f"The base was called: {called}.", ""])


def _line(variant: Variant, rows: list[dict[str, Any]]) -> str:
    part = statistics.median(of_base(row) for row in rows)
    said = [says(row["planted"]["report"]) for row in rows]
    words = ", ".join(f"{each} {said.count(each)}" for each in sorted(set(said)))
    gains = [row["planted"]["report"]["findings"][0]["gain"]["predicted"] for row in rows if row["planted"]["report"]["findings"]]
    known = [gain for gain in gains if gain is not None]
    there = "" if variant.there is None else f"{variant.there / 100:.2f}"
    predicted = f"{statistics.median(known):.2f}" if known else "unknown"
    return f"| {variant.name} | {part:.2f} | {there} | {words} | {predicted} | {1 / part:.2f} |"


def main() -> int:
    today = datetime.now(UTC).date().isoformat()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--variants", nargs="*", choices=[each.name for each in VARIANTS], default=[each.name for each in VARIANTS])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one run may take")
    parser.add_argument("--data", type=Path, default=TRAIN.parent / "data", help="where the pictures are kept")
    parser.add_argument("--results", type=Path, default=HERE / "results" / f"keras-{today}.json")
    given = parser.parse_args()
    facts = machine.describe() | {"keras": machine.installed_version("keras"), "tensorflow": machine.installed_version("tensorflow-cpu")}
    try:
        rows = measure(given.rounds, given.variants, given.data, given.limit)
    except ChildFailed as error:
        print(error, file=sys.stderr)
        return 2
    raw = {"date": today, "machine": facts, "rows": rows}
    given.results.write_text(json.dumps(raw, indent=1) + "\n")
    PAGE.write_text(draw(raw))
    return 0


if __name__ == "__main__":
    sys.exit(main())
