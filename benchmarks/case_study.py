"""The variants of examples/case_study, what `slowstep run` should say of each, and how one of them is run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAIN = Path(__file__).resolve().parent.parent / "examples" / "case_study" / "train.py"
SLOWSTEP = Path(sys.executable).parent / "slowstep"
BASE = "healthy"
KEPT_OF_RUN = ("steps", "recorded_steps", "batch_size", "warmup_steps", "period_steps", "whole_periods", "startup_s", "duration_s", "notes")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A planted problem. `fix` is the flag that takes it out; `fixed_is_base` when that makes it the healthy base.

    `rule` is the one that should name it, where it is not called as the variant is. Where no rule predicts its gain, that one is to be
    among the findings, and no other the verdict.
    """

    name: str
    rule: str | None = None
    stage: str
    function: str | None = None
    fix: tuple[str, ...]
    fixed_is_base: bool = True
    is_predicted: bool = True

    @property
    def expected(self) -> str:
        """The rule that should be the verdict."""
        return self.rule or self.name


VARIANTS = (
    Variant(name="serial-loader", stage="preprocess", fix=("--workers", "1")),
    Variant(name="too-few-workers", stage="read", fix=("--workers", "4"), fixed_is_base=False),
    Variant(name="slow-collate", stage="preprocess", function="collate_slow", fix=("--collate", "default")),
    Variant(name="slow-transform", stage="preprocess", function="darken_corners_pixel_by_pixel", fix=("--augment", "default")),
    Variant(name="small-batch", stage="compute", fix=("--batch-size", "16"), fixed_is_base=False),
    Variant(name="slow-callback", stage="output", function="save_mask_images", fix=("--post-process", "off")),
    Variant(name="blocking-checkpoint", stage="store", fix=("--checkpoint-every", "0")),
    Variant(
        name="network-input",
        rule="network-input-capped",
        stage="read",
        function="ServedDataset.read_bytes",
        fix=("--served-mb-per-s", "0"),
        fixed_is_base=False,
    ),
    # As its finding assumes: half of the work per sample.
    Variant(
        name="overloaded-preprocessing",
        rule="preprocess-saturates-cpu",
        stage="preprocess",
        fix=("--input", "half-loaded"),
        fixed_is_base=False,
    ),
    Variant(
        name="many-small-files",
        rule="reopened-files",
        stage="preprocess",
        function="read_tiles",
        fix=("--input", "one-file"),
        fixed_is_base=False,
    ),
    Variant(
        name="inefficient-operation",
        stage="compute",
        rule="python-between-operations",
        function="edge_weights_pixel_by_pixel",
        fix=("--edge-weights", "fast"),
        fixed_is_base=False,
    ),
    Variant(name="double-precision", stage="compute", fix=("--dtype", "float32")),
    Variant(name="chatty-logging", stage="store", function="log_every_channel", fix=("--log-channels", "off")),
    Variant(
        name="growing-history",
        rule="growing-file",
        stage="output",
        function="History.rewrite",
        fix=("--history", "append"),
        fixed_is_base=False,
    ),
    Variant(name="frequent-validation", stage="output", fix=("--validate-every", "10"), fixed_is_base=False),
    Variant(name="straggler-sample", rule="straggler-samples", stage="preprocess", fix=("--large-pictures", "off")),
    Variant(name="worker-restart", stage="preprocess", fix=("--persistent", "on"), fixed_is_base=False),
    Variant(
        name="too-many-threads", rule="thread-contention", stage="compute", fix=("--threads", "2"), fixed_is_base=False, is_predicted=False
    ),
)


class ChildFailed(Exception):
    """The run ended with another exit code than 0, or not within its limit."""


def run_recorded(name: str, *flags: str, data: Path | None = None, limit_s: float = 180.0) -> dict[str, Any]:
    """Run a variant through `slowstep run --json` and return what of its report is worth keeping. Raises `ChildFailed`."""
    with tempfile.TemporaryDirectory(prefix="accuracy-") as folder:
        report = Path(folder) / "report.json"
        words = [sys.executable, str(TRAIN), "--variant", name, *flags]
        if data is not None:
            words += ["--data", str(data)]
        started = time.perf_counter()
        out = run_limited([str(SLOWSTEP), "run", "--json", str(report), "--out", folder, *words], folder, limit_s)
        took = time.perf_counter() - started
        return {
            "variant": name,
            "flags": list(flags),
            "took_s": round(took, 2),
            "script": json.loads(out.splitlines()[-1]),
            "report": excerpt(json.loads(report.read_text())),
        }


def run_limited(words: list[str], folder: str, limit_s: float) -> str:
    """Standard output of a command, which is ended with all its children at the limit."""
    child = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise ChildFailed(f"{' '.join(words)}: not done within {limit_s:.0f} s") from error
    if child.returncode != 0:
        raise ChildFailed(f"{' '.join(words)}: exit code {child.returncode}\n{err[-3000:]}")
    return out


def excerpt(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what names this machine's folders."""
    return {
        "run": {name: report["run"].get(name) for name in KEPT_OF_RUN},
        "throughput": report["throughput"],
        "ledger": {row["stage"]: row["share"] for row in report["ledger"]},
        "verdict": report["verdict"],
        "findings": report["findings"],
        "next": report["next"],
        "not_judged": report["not_judged"],
        "health": [row["name"] for row in report["health"]],
        "overhead": report["overhead"],
    }


def finds(report: dict[str, Any], rule: str) -> bool:
    """Whether a rule is among the findings, and no other one is the verdict."""
    return report["verdict"]["state"] != "bottleneck" and any(finding["rule"] == rule for finding in report["findings"])


def says(report: dict[str, Any]) -> str:
    """The verdict in a word: the rule of a bottleneck, else the state."""
    verdict = report["verdict"]
    return str(verdict["rule"]) if verdict["state"] == "bottleneck" else str(verdict["state"])


def names_function(report: dict[str, Any], function: str) -> bool:
    """Whether the first finding names this function, in its title or its evidence."""
    if not report["findings"]:
        return False
    finding = report["findings"][0]
    values = [str(row["value"]) for row in finding["evidence"] if isinstance(row["value"], str)]
    return function in finding["title"] or any(function in value for value in values)
