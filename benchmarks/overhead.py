"""What recording costs: slowstep against nothing, torch.profiler, cProfile, and rivals in environments of their own, interleaved.

Exit code 1 if slowstep misses one of its own limits, 2 if a run failed. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import machine
import rivals
from case_study import SLOWSTEP, ChildFailed
from overhead_page import draw, misses
from overhead_step import NotCalibrated, find_batch

HERE = Path(__file__).resolve().parent
LOOP = HERE / "overhead_loop.py"
TOGGLE = HERE / "overhead_toggle.py"
PAGE = HERE.parent / "docs" / "overhead.md"
ARMS = ("nothing", "slowstep", "torch.profiler", "cProfile", "traceml-ai", "gpuprof")
STEPS = {"empty": 4000, "20ms": 300}
EMPTY_BATCH = 4
# What is added at a script's start and end is lost in a run of 10 s, which differs by half a second from the next one.
SHORT_STEPS = 20
SHORT_PAIRS_PER_ROUND = 4
CALIBRATING_STEPS = 60
TOGGLE_REPEATS = 3
REPORT_STEPS = 100_000
REPORT_REPEATS = 3
WARM_SHARE = 0.2
LIMIT_S = 240.0


def command_of(arm: str, flags: list[str], folder: Path) -> list[str]:
    if arm in rivals.PACKAGES:
        return rivals.command(arm, LOOP, flags)
    plain = [sys.executable, str(LOOP), *flags]
    if arm == "slowstep":
        return [str(SLOWSTEP), "run", "--json", str(folder / "report.json"), "--out", str(folder / "runs"), *plain]
    return plain


def run_arm(arm: str, step: str, steps: int, folder: Path, batch: int = EMPTY_BATCH) -> dict[str, Any]:
    """One run in an empty folder: ns per step, and when script and command had ended. Raises `ChildFailed`."""
    result, fifo = folder / "result.json", folder / "alive"
    os.mkfifo(fifo)
    flags = ["--tool", arm, "--step", step, "--steps", str(steps), "--batch", str(batch), "--result", str(result), "--alive", str(fifo)]
    words = command_of(arm, flags, folder)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with (folder / "output").open("w") as output:
            started = time.perf_counter()
            child = subprocess.Popen(words, cwd=folder, stdout=output, stderr=output, start_new_session=True)
            try:
                script_s = wait_for_hang_up(reader, started, child)
                child.wait(timeout=LIMIT_S)
            except (subprocess.TimeoutExpired, ChildFailed) as error:
                os.killpg(child.pid, 9)
                child.wait()
                raise ChildFailed(f"{arm}: {error}\n{(folder / 'output').read_text()[-3000:]}") from error
            command_s = time.perf_counter() - started
    finally:
        os.close(reader)
    if child.returncode != 0 or not result.exists():
        raise ChildFailed(f"{arm}: exit code {child.returncode}\n{(folder / 'output').read_text()[-3000:]}")
    return per_step(json.loads(result.read_text())) | {"script_s": script_s, "command_s": command_s}


def wait_for_hang_up(reader: int, started: float, child: subprocess.Popen[bytes]) -> float:
    """Seconds until the process that holds the FIFO open is gone: the kernel closes it, so no exit handler is missed."""
    poll = select.poll()
    poll.register(reader, select.POLLHUP)
    while time.perf_counter() - started < LIMIT_S:
        if poll.poll(100):
            return time.perf_counter() - started
        if child.poll() is not None:
            raise ChildFailed(f"it ended with {child.returncode} before the training began")
    raise ChildFailed(f"not done within {LIMIT_S:.0f} s")


def per_step(read: dict[str, Any]) -> dict[str, float]:
    """Median over blocks of steps, warm-up left out."""
    first = int(len(read["wall_ns"]) * WARM_SHARE)

    def median(name: str) -> float:
        values = read[name][first:]
        return statistics.median(b - a for a, b in pairwise(values)) / read["block"]

    return {"wall_ns": median("wall_ns"), "cpu_ns": median("cpu_ns")}


def calibrate() -> tuple[int, float]:
    """Batch size and length in ms of the bare "20 ms" step on this machine. Raises `ChildFailed` or `NotCalibrated`.

    The length is the training thread's processor time: nothing else is in the step, and who else uses the machine now is no part of it.
    """

    def step_ms(batch: int) -> float:
        with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
            return run_arm("nothing", "20ms", CALIBRATING_STEPS, Path(folder), batch)["cpu_ns"] / 1e6

    return find_batch(step_ms)


def interleave(step: str, arms: list[str], rounds: int, draw_order: random.Random, batch: int) -> list[dict[str, Any]]:
    """Every arm once a round, in random order."""
    rows = []
    for index in range(rounds):
        order = list(arms)
        draw_order.shuffle(order)
        for arm in order:
            with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
                row = run_arm(arm, step, STEPS[step], Path(folder), batch)
                report = Path(folder) / "report.json"
                if report.exists():
                    row["report_overhead"] = json.loads(report.read_text())["overhead"]
            rows.append({"round": index, "step": step, "arm": arm, **row})
            print(
                f"{step} round {index} {arm:15} {row['wall_ns'] / 1e3:9.1f} us/step, script {row['script_s']:.2f} s, "
                f"command {row['command_s']:.2f} s",
                flush=True,
            )
    return rows


def time_ends(pairs: int, batch: int, draw_order: random.Random) -> list[dict[str, float]]:
    """Seconds until a script of few steps has ended, bare (`nothing`) and recorded (`slowstep`), in random order. Raises `ChildFailed`."""
    rows = []
    for _ in range(pairs):
        row = {}
        for arm in draw_order.sample(("nothing", "slowstep"), 2):
            with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
                row[arm] = run_arm(arm, "20ms", SHORT_STEPS, Path(folder), batch)["script_s"]
        rows.append(row)
        print(f"short script: nothing {row['nothing']:.2f} s, slowstep {row['slowstep']:.2f} s", flush=True)
    return rows


def toggle(repeats: int) -> list[tuple[float, float]]:
    """ns per empty step of neighbouring blocks without and with hooks, in processes that switch them. Raises `ChildFailed`."""
    pairs: list[tuple[float, float]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="overhead-") as name:
            result = Path(name) / "pairs.json"
            words = [str(SLOWSTEP), "run", "--out", f"{name}/runs", sys.executable, str(TOGGLE), "--result", str(result)]
            ran = subprocess.run(words, cwd=name, capture_output=True, text=True, timeout=LIMIT_S)
            if ran.returncode != 0:
                raise ChildFailed(f"{TOGGLE.name}: exit code {ran.returncode}\n{ran.stderr[-3000:]}")
            pairs += [(round(without), round(with_hooks)) for without, with_hooks in json.loads(result.read_text())]
    return pairs


def time_report(steps: int, repeats: int) -> dict[str, Any]:
    """Seconds of `slowstep analyze` for a recording of so many empty steps, interpreter start included."""
    with tempfile.TemporaryDirectory(prefix="overhead-") as name:
        folder = Path(name)
        run_arm("slowstep", "empty", steps, folder)
        (recording,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
        took = []
        for _ in range(repeats):
            started = time.perf_counter()
            subprocess.run([str(SLOWSTEP), "analyze", str(recording)], check=True, timeout=LIMIT_S, capture_output=True, cwd=folder)
            took.append(time.perf_counter() - started)
        recorded = sum(path.stat().st_size for path in recording.glob("*.rec"))
    return {"steps": steps, "seconds": took, "recording_bytes": recorded}


def available(arms: list[str]) -> tuple[list[str], dict[str, str]]:
    """The arms that can be run here, and the rivals' versions."""
    found, versions = [], {}
    for arm in arms:
        try:
            if arm in rivals.PACKAGES:
                versions[arm] = rivals.version_of(arm)
        except (rivals.NotInstalled, subprocess.SubprocessError) as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        found.append(arm)
    return found, versions


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    arms, versions = available([arm for arm in ARMS if not (arguments.no_rivals and arm in rivals.PACKAGES)])
    # As an installed package is: a clone on a machine that writes no bytecode would be compiled anew by every process.
    compileall.compile_dir(HERE.parent / "src", quiet=1)
    facts = machine.describe()
    order = random.Random(arguments.seed)
    batch, took_ms = calibrate()
    batches = {"empty": EMPTY_BATCH, "20ms": batch}
    raw = {
        "date": datetime.now(UTC).date().isoformat(),
        "seed": arguments.seed,
        "machine": facts,
        "rivals": versions,
        "arms": arms,
        "calibrated": {"batch": batch, "step_ms": took_ms},
        "rows": [row for step in STEPS for row in interleave(step, arms, arguments.rounds, order, batches[step])],
        "ends": time_ends(SHORT_PAIRS_PER_ROUND * arguments.rounds, batch, order),
        "toggle": toggle(TOGGLE_REPEATS),
        "report": time_report(arguments.report_steps, REPORT_REPEATS),
    }
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text(json.dumps(raw, indent=1) + "\n")
    return raw


def main() -> int:
    today = datetime.now(UTC).date().isoformat()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--no-rivals", action="store_true", help="leave out what must be installed")
    parser.add_argument("--report-steps", type=int, default=REPORT_STEPS)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--results", type=Path, default=HERE / "results" / f"overhead-{today}.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--draw", action="store_true", help="draw the page again from --results, without measuring")
    arguments = parser.parse_args()
    try:
        raw = json.loads(arguments.results.read_text()) if arguments.draw else measure(arguments)
    except (ChildFailed, NotCalibrated) as error:
        print(error, file=sys.stderr)
        return 2
    text = draw(raw, arguments.results.name)
    print(text)
    arguments.page.write_text(text)
    return 1 if misses(raw) else 0


if __name__ == "__main__":
    sys.exit(main())
