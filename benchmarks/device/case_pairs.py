"""The six cases with and without their problem, in turns in one process; beside that what slowstep says of the one with the problem.

True: samples/s without the problem over those with it, over blocks in turns. Said: the verdict and gain of `slowstep run --capture`, and
of `slowstep analyze` of a plain trace of torch.profiler of the same training. Without a device: each case's fixed form, tiny, on the
processor.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cases
import torch
from cases import CASES, STUDY, Settings
from part import NO_DEVICE, Result, begin_anywhere
from torch.profiler import ProfilerActivity, profile, schedule

# More than the batches that lie ready when a block begins: those were made while the other arm ran.
SETTLE, TIMED, ROUNDS = 20, 16, 2
TRACED_STEPS = 5
TINY_STEPS = 12
RECORDED_STEPS = 90
# A case takes about so long; the last ones are left out where there is less.
SECONDS_PER_CASE = 22.0
PATIENCE_S = 60.0


def rate(steps: Iterator[int], device: str, count: int) -> float:
    """Samples/s of the next steps."""
    cases.wait_for(device)
    began = time.perf_counter()
    samples = sum(itertools.islice(steps, count))
    cases.wait_for(device)
    return samples / (time.perf_counter() - began)


def in_turns(settings: Settings) -> dict[str, Any]:
    """Samples/s with the problem and without, block by block, and what removing it gains."""
    arms = {"problem": cases.train(settings), "fixed": cases.train(settings.without_problem())}
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(ROUNDS):
        for name in arms if number % 2 == 0 else reversed(arms):
            rate(arms[name], settings.device, SETTLE)
            rates[name].append(rate(arms[name], settings.device, TIMED))
    for steps in arms.values():
        steps.close()  # type: ignore[attr-defined]
    gains = [fixed / problem for problem, fixed in zip(rates["problem"], rates["fixed"], strict=True)]
    return {"samples_per_s": rates, "true": statistics.median(gains), "gains": gains}


def write_trace(settings: Settings, path: Path) -> None:
    """A plain trace of some steps of the training with the problem."""
    steps = cases.train(settings)
    plan = schedule(wait=SETTLE, warmup=2, active=TRACED_STEPS, repeat=1)
    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds, schedule=plan, on_trace_ready=lambda p: p.export_chrome_trace(str(path))) as profiler:
        for _ in itertools.islice(steps, SETTLE + 2 + TRACED_STEPS):
            profiler.step()
    steps.close()  # type: ignore[attr-defined]


def recorded(settings: Settings, folder: Path) -> dict[str, Any]:
    """What `slowstep run --capture` says of the case, run as a script of its own."""
    report = folder / f"{settings.case}-run.json"
    script = [sys.executable, cases.__file__, "--case", settings.case, "--steps", str(RECORDED_STEPS)]
    script += ["--cap-per-s", str(settings.cap_per_s), "--rounds", str(settings.rounds)]
    words = [sys.executable, "-m", "slowstep", "run", "--capture", "--out", str(folder / "runs"), "--json", str(report), *script]
    return said(words, report)


def analyzed(trace: Path) -> dict[str, Any]:
    """What `slowstep analyze` says of a trace."""
    report = trace.with_suffix(".report.json")
    return said([sys.executable, "-m", "slowstep", "analyze", str(trace), "--json", str(report)], report)


def said(words: list[str], report: Path) -> dict[str, Any]:
    """Verdict, ledger and findings of a report, or what the command said instead of one."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"not ended after {PATIENCE_S:.0f} s"}
    if not report.exists():
        return {"failed": (ended.stderr or ended.stdout)[-1000:]}
    document = json.loads(report.read_text())
    gains = [{"rule": each["rule"], "share": each["share"], **each["gain"]} for each in document["findings"]]
    return {
        "verdict": document["verdict"],
        "throughput": document["throughput"],
        "ledger": {each["stage"]: each["share"] for each in document["ledger"]},
        "findings": gains,
        "overhead": document["overhead"],
    }


def settings_here() -> tuple[Settings, float]:
    """The base as fast as this machine is, with the limits that the case study had in proportion, and its samples/s."""
    base = Settings()
    steps = cases.train(base)
    rate(steps, base.device, SETTLE)
    per_s = rate(steps, base.device, TIMED)
    steps.close()  # type: ignore[attr-defined]
    frame = torch.zeros(3, base.side, base.side, dtype=torch.uint8)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    began = time.perf_counter()
    cases.convolve(frame, 20)
    per_round_s = (time.perf_counter() - began) / 20
    torch.set_num_threads(threads)
    rounds = max(1, math.ceil(base.workers / (cases.STUDY_PREPROCESSING * per_s * per_round_s)))
    return replace(base, cap_per_s=cases.STUDY_HEADROOM * per_s, rounds=rounds), per_s


def on_device(result: Result) -> None:
    """Every case, as long as there is time."""
    base, per_s = settings_here()
    result.add("base", {"samples_per_s": per_s, "cap_per_s": base.cap_per_s, "rounds": base.rounds})
    for case in CASES:
        if not result.has_time(SECONDS_PER_CASE):
            result.add(case, result.known.get(case, {}) | {"skipped": "no time left"})
            continue
        # Only the throttled case has a limit to its reads: in the others it would be a second problem.
        cap = base.cap_per_s if case == "throttled-input" else 0.0
        settings = replace(base, case=case, cap_per_s=cap)
        found = result.known.get(case, {}) | {"study": STUDY[case] / STUDY["base"]}
        if case != "base":
            found |= in_turns(settings)
        result.add(case, found)
        trace = result.folder / f"{case}.pt.trace.json.gz"
        write_trace(settings, trace)
        result.add(case, found | {"analyze": analyzed(trace)})
        result.add(case, result.known[case] | {"run": recorded(settings, result.folder)})
        trace.unlink()
    for report in (*result.folder.glob("*-run.json"), *result.folder.glob("*.report.json")):
        report.unlink()


def on_processor(result: Result) -> None:
    """Each case's fixed form, tiny: that the scripts work at all."""
    result.add("skipped", NO_DEVICE)
    for case in CASES:
        steps = cases.train(replace(cases.TINY, case=case).without_problem())
        result.add(case, {"tiny": True, "samples_per_s": rate(steps, "cpu", TINY_STEPS)})
        steps.close()  # type: ignore[attr-defined]


def main() -> None:
    """The cases on the device, or tiny on the processor."""
    result = begin_anywhere(__doc__ or "")
    on_device(result) if torch.cuda.is_available() else on_processor(result)


if __name__ == "__main__":
    main()
