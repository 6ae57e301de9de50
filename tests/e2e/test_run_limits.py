"""`--steps`, `--for` and `--stop`: the recording ends when it was told to, and the training only when that was asked for."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap

import pytest

from launching import TRAINING, Workplace
from small_torch import TRAINING as LIGHT

pytest.importorskip("torch")

# The command line with time limits that a test can wait for.
IMPATIENT = """\
import os, sys
from pathlib import Path
from slowstep.record.launching.command import resolve_command
from slowstep.record.launching.launch import RunLimits, RunOptions, launch
from slowstep.record.launching.stopping import StopLimits

patience_s = float(sys.argv[2])
limits = RunLimits(stop=StopLimits(interrupt_s=patience_s, terminate_s=patience_s, kill_s=30.0))
options = RunOptions(steps=40, stop=True, parent=sys.argv[1])
outcome = launch(resolve_command(sys.argv[3:], os.environ), options, os.environ, on_recorded=print, limits=limits)
sys.exit(outcome.exit_code)
"""


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_steps_end_the_recording_while_the_training_goes_on(work: Workplace) -> None:
    work.write("train.py", LIGHT + "train(150)\nprint('done')\n")

    ended = work.run("train.py", options=("--steps", "50", "--json", "report.json"))

    assert (ended.code, ended.out) == (0, "done\n")
    assert work.updates() == 50
    assert (work.folder / "steps").stat().st_size == 150
    assert ended.err.count("steps/s") == 1
    assert json.loads((work.folder / "report.json").read_text())["schema"] == "slowstep/report/1"
    assert work.launcher_notes("exit")[0]["by"] == "script"


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_the_report_comes_while_the_training_goes_on(work: Workplace) -> None:
    # The script ends only when it has seen the report.
    waits = f"import glob\nwhile not glob.glob({str(work.runs)!r} + '/*/report.json'): train(1)\nprint('seen')\n"
    work.write("train.py", LIGHT + "train(50)\n" + waits)

    ended = work.run("train.py", options=("--steps", "40"))

    assert (ended.code, ended.out) == (0, "seen\n")


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_a_time_ends_the_recording_while_the_training_goes_on(work: Workplace) -> None:
    work.write("train.py", LIGHT + "begin = time.monotonic()\nwhile time.monotonic() < begin + 4: train(5)\nprint('done')\n")

    ended = work.run("train.py", options=("--for", "1s"))

    assert (ended.code, ended.out) == (0, "done\n")
    assert 0 < work.updates() < (work.folder / "steps").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(
    "builds",
    [
        pytest.param(True, id="an optimizer that it never calls"),
        pytest.param(False, id="no optimizer", marks=pytest.mark.nightly),
    ],
)
def test_a_time_ends_a_training_that_updates_its_parameters_by_hand(work: Workplace, builds: bool) -> None:
    by_hand = TRAINING.replace("    optimizer.step()\n", "    with torch.no_grad():\n        model.weight -= 0.01 * model.weight.grad\n")
    assert "optimizer.step()" not in by_hand
    if not builds:
        by_hand = by_hand.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n", "").replace(
            "optimizer.zero_grad", "model.zero_grad"
        )
        assert "optim" not in by_hand
    work.write("train.py", by_hand + "train(10**6)\n")

    ended = work.run("train.py", options=("--for", "1s", "--stop"))

    assert ended.code == 130
    assert work.launcher_notes("exit")[0]["signals"] == ["SIGINT"]
    said = " ".join(ended.err.split())
    if builds:
        assert re.search(
            r"no training step was recorded in \d+ s: 1 process used PyTorch \(\d{2,} batches requested, \d{2,} backward passes\)", said
        )
        assert "ended by --stop" in said
    else:
        assert "end with its backward pass" in said
        assert work.updates() > 10


def test_a_script_that_fails_before_it_trains_is_said_to_have_failed(work: Workplace) -> None:
    work.write("train.py", "raise ValueError('no data')\n")

    ended = work.run("train.py")

    assert ended.code == 1
    assert "failed before any update (exit code 1)" in ended.err


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_stop_ends_the_training_as_ctrl_c_would(work: Workplace) -> None:
    work.write("train.py", LIGHT + "try:\n    train(10**6)\nexcept KeyboardInterrupt:\n    print('clean-up ran')\n    sys.exit(3)\n")

    ended = work.run("train.py", options=("--steps", "40", "--stop"))

    assert (ended.code, ended.out) == (3, "clean-up ran\n")
    assert work.updates() == 40
    (exit_note,) = work.launcher_notes("exit")
    assert (exit_note["by"], exit_note["signals"], exit_note["code"]) == ("slowstep --stop", ["SIGINT"], 3)
    assert ended.err.count("steps/s") == 1


@pytest.mark.slow
def test_stop_reaches_a_training_below_a_shell_script_and_its_workers(work: Workplace) -> None:
    workers = TRAINING.replace("batch_size=4)", "batch_size=4, num_workers=1)")
    work.write("train.py", workers + "if __name__ == '__main__':\n    train(10**6)\n")
    work.write("run.sh", "python train.py\necho after\n")

    ended = work.run("bash", "run.sh", options=("--steps", "40", "--stop"), env=work.environment(PATH=python_first()))

    assert "after" not in ended.out
    signals = work.launcher_notes("exit")[0]["signals"]
    # Python itself drops an interrupt that comes in what it does around a fork of a worker; the training is then ended by the next signal.
    is_dropped = "Exception ignored in" in ended.err
    assert (ended.code, signals) == ((143, ["SIGINT", "SIGTERM"]) if is_dropped else (130, ["SIGINT"]))


def python_first() -> str:
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "code", "signals"),
    [
        ("train(10**6)\n", 130, ["SIGINT"]),
        ("import atexit\natexit.register(time.sleep, 60)\ntrain(10**6)\n", 143, ["SIGINT", "SIGTERM"]),
        (
            "import signal\nfor number in (2, 15): signal.signal(number, signal.SIG_IGN)\ntrain(10**6)\n",
            137,
            ["SIGINT", "SIGTERM", "SIGKILL"],
        ),
    ],
)
def test_stop_goes_only_as_far_as_it_must(work: Workplace, script: str, code: int, signals: list[str]) -> None:
    work.write("train.py", LIGHT + script)
    work.write("impatient.py", textwrap.dedent(IMPATIENT))
    # Where the first signal is to be enough, a busy machine has time; the others are waited out.
    patience_s = "60" if signals == ["SIGINT"] else "1"

    ended = work.run("impatient.py", str(work.runs), patience_s, "train.py", slowstep=False)

    assert ended.code == code
    assert work.launcher_notes("exit")[0]["signals"] == signals
    assert work.left() == []
