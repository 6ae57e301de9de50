"""What `slowstep run` costs beside a device, and whether it changes anything: a 20 ms and a 2 ms step, with and without, interleaved."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import steps
from part import Result, begin

from recorded import device_readings, last_recording, told_of_device

STEP_MS = (20.0, 2.0)
SECONDS_PER_RUN = 3.0
# Of a process: imports, the device, the loader, and a report.
SECONDS_AROUND = 4.0
# With and without take turns, the first of a round last in the next.
ROUNDS = (("plain", "recorded"), ("recorded", "plain"))
LAYERS_TRIED = 4
# Workers start, the allocator fills, clocks rise.
SETTLE_BLOCKS = 3


def layers_for(step_ms: float) -> int:
    """How deep the perceptron must be for a step of so many ms on this device."""
    few, many = (block_ms(steps.train(layers, 60)[0]) for layers in (LAYERS_TRIED, 2 * LAYERS_TRIED))
    per_layer = max((many - few) / LAYERS_TRIED, 1e-3)
    return max(1, round(LAYERS_TRIED + (step_ms - few) / per_layer))


def block_ms(times_ns: list[int]) -> float:
    """The median ms of a step, by blocks after the first ones."""
    return statistics.median(times_ns[SETTLE_BLOCKS:]) / steps.BLOCK / 1e6


def one_run(arm: str, layers: int, count: int, folder: Path) -> dict[str, Any]:
    """One process: the step's ms, the digest of its losses and, recorded, what the report says."""
    result = folder / "steps.json"
    words = [sys.executable, steps.__file__, "--layers", str(layers), "--steps", str(count), "--result", str(result)]
    report = folder / "report.json"
    # That of an earlier run is not to stand for one that failed.
    report.unlink(missing_ok=True)
    if arm == "recorded":
        words = [sys.executable, "-m", "slowstep", "run", "--out", str(folder / "runs"), "--json", str(report), *words]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    said = json.loads(result.read_text())
    row: dict[str, Any] = {"arm": arm, "step_ms": block_ms(said["times_ns"]), "digest": said["digest"]}
    if arm == "recorded":
        document = json.loads(report.read_text())
        row |= {"verdict": document["verdict"], "overhead": document["overhead"], "notes": document["run"].get("notes", [])}
        row |= {"ledger": {each["stage"]: each["share"] for each in document["ledger"]}, "health": document["health"]}
        recording = last_recording(folder / "runs")
        row |= {"readings": device_readings(recording), "device_at_stacks": told_of_device(recording)}
    return row


def compare(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The ratio of step times of each round's pair, and whether all losses are the same bits."""
    by_arm = {arm: [row["step_ms"] for row in rows if row["arm"] == arm] for arm in ("plain", "recorded")}
    ratios = [recorded / plain for plain, recorded in zip(by_arm["plain"], by_arm["recorded"], strict=True)]
    plain = {row["digest"] for row in rows if row["arm"] == "plain"}
    return {
        "plain_ms": statistics.median(by_arm["plain"]),
        "ratios": ratios,
        "same_losses": len({row["digest"] for row in rows}) == 1,
        "plain_runs_agree": len(plain) == 1,
        "rows": rows,
    }


def measure(result: Result) -> None:
    """All step lengths, as long as there is time."""
    for step_ms in STEP_MS:
        if not result.has_time(len(ROUNDS) * 2 * (SECONDS_PER_RUN + SECONDS_AROUND)):
            result.add(f"{step_ms:.0f} ms", {"skipped": "no time left"})
            continue
        layers = layers_for(step_ms)
        count = max(int(SECONDS_PER_RUN * 1000 / step_ms), 10 * steps.BLOCK)
        with tempfile.TemporaryDirectory(prefix="device-") as folder:
            rows = [one_run(arm, layers, count, Path(folder)) for round_ in ROUNDS for arm in round_]
        result.add(f"{step_ms:.0f} ms", {"layers": layers, "steps": count, **compare(rows)})


if __name__ == "__main__":
    measure(begin(__doc__ or ""))
