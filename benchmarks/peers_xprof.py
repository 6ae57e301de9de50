"""What XProf says of the variants of examples/keras_case_study, beside what slowstep says of the same trace and of the same run.

Writes `peers_xprof.md`, a section of docs/accuracy.md. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine
import rivals
from case_study import SLOWSTEP, ChildFailed, excerpt, run_limited, says
from keras_case_study import BASE, TRAIN, VARIANTS

HERE = Path(__file__).resolve().parent
TRAINING, SAID = HERE / "peers_xprof_training.py", HERE / "peers_xprof_said.py"
PAGE = HERE / "peers_xprof.md"
# "Your program is HIGHLY input-bound because 92.3% of the total step time sampled is waiting for input."
# Of 'All Others' time it says the same, but for the end.
SHARE = re.compile(r"([\d.]+)\s*% of the total step time sampled is waiting for input")


def run(name: str, data: Path, limit_s: float) -> dict[str, Any]:
    """One variant, recorded and profiled at once: slowstep's report of the run, and of its trace, and what XProf says of that.

    Raises `ChildFailed`.
    """
    with tempfile.TemporaryDirectory(prefix="xprof-") as folder:
        live, traced, profile = Path(folder) / "live.json", Path(folder) / "trace.json", Path(folder) / "profile"
        training = [sys.executable, str(TRAINING), str(profile), "--variant", name, "--data", str(data)]
        run_limited([str(SLOWSTEP), "run", "--json", str(live), "--out", f"{folder}/runs", *training], folder, limit_s)
        traces = list(profile.rglob("*.xplane.pb"))
        if len(traces) != 1:
            raise ChildFailed(f"{name}: {len(traces)} traces were written")
        (trace,) = traces
        run_limited([str(SLOWSTEP), "analyze", "--json", str(traced), str(trace)], folder, limit_s)
        python = str(rivals.environment_of("xprof") / "python")
        said = run_limited([python, str(SAID), str(trace)], folder, limit_s)
        reports = {which: excerpt(json.loads(path.read_text())) for which, path in (("live", live), ("trace", traced))}
        return {"variant": name, "xprof": json.loads(said), **reports}


def input_share(report: dict[str, Any]) -> float | None:
    """The share of the time in reading and preprocessing, as far as it was measured; None where neither was."""
    known = [share for stage in ("read", "preprocess") if (share := report["ledger"].get(stage)) is not None]
    return float(sum(known)) if known else None


def xprof_share(row: dict[str, Any]) -> float | None:
    """The share of the step time that XProf says is waited for input; None where it measures none."""
    found = SHARE.search(row["xprof"]["input_conclusion"] or "")
    return float(found[1]) / 100 if found else None


def draw(raw: dict[str, Any], results_file: str) -> str:
    """The page of what was said."""
    lines = [
        "# Beside XProf",
        "",
        f"Made by `benchmarks/peers_xprof.py` from `benchmarks/results/{results_file}` ({raw['date']}; {machine.in_words(raw['machine'])},",
        f"TensorFlow {raw['machine']['tensorflow']}, XProf {raw['xprof']}): variants of `examples/keras_case_study`, each run once under",
        '`slowstep run`, thirty of its steps profiled and marked as XProf needs them (of a plain `fit` it says "No step time measured").',
        "Input is what a step waits for it: by XProf of these steps but the first and the last, which it leaves out, by slowstep of these",
        "steps, and of the whole run. Where a few steps wait for seconds, which steps those are is most of the difference.",
        "",
        "| problem | input: XProf | slowstep, same trace | slowstep, run | what XProf says | slowstep of the trace | slowstep of the run |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in raw["rows"]:
        found = (xprof_share(row), input_share(row["trace"]), input_share(row["live"]))
        shares = ("-" if each is None else f"{each:.1%}" for each in found)
        statement = " ".join((row["xprof"]["statement"] or "-").split())
        said = (re.sub(r"<[^>]+>", "", statement), says(row["trace"]), says(row["live"]))
        lines.append(f"| {row['variant']} | {' | '.join((*shares, *said))} |")
    return "\n".join([*lines, ""])


def main() -> int:
    today = datetime.now(UTC).date().isoformat()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [BASE, *(each.name for each in VARIANTS)]
    parser.add_argument("--variants", nargs="*", choices=names, default=names)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one run may take")
    parser.add_argument("--data", type=Path, default=TRAIN.parent / "data", help="where the pictures are kept")
    parser.add_argument("--results", type=Path, default=HERE / "results" / f"peers-xprof-{today}.json")
    parser.add_argument("--draw", action="store_true", help="draw the page again from --results, without measuring")
    given = parser.parse_args()
    if given.draw:
        raw = json.loads(given.results.read_text())
    else:
        facts = machine.describe() | {"tensorflow": machine.installed_version("tensorflow-cpu")}
        try:
            raw: dict[str, Any] = {"date": today, "machine": facts, "xprof": rivals.version_of("xprof"), "rows": []}
            for name in given.variants:
                raw["rows"].append(run(name, given.data, given.limit))
                # After each: what comes later may fail.
                given.results.write_text(json.dumps(raw, indent=1) + "\n")
                print(f"{name}: XProf {xprof_share(raw['rows'][-1])}, slowstep {input_share(raw['rows'][-1]['trace'])}", flush=True)
        except (ChildFailed, rivals.NotInstalled, subprocess.SubprocessError) as error:
            print(error, file=sys.stderr)
            return 2
    PAGE.write_text(draw(raw, given.results.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
