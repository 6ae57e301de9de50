"""`slowstep run --capture`: a few steps profiled in the middle of a recording, and nothing of the training's changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launching import TRAINING, Ended, Workplace

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

LOSSES = (
    TRAINING.replace("import torch\n", "import torch\ntorch.manual_seed(0)\n", 1)
    + """
train({steps})
print(float(model.weight.sum()), torch._C._autograd._profiler_enabled())
"""
)

IMPORTS = "from torch.profiler import profile\n" + LOSSES

STARTS_ITS_OWN = LOSSES.replace(
    "train({steps})",
    """
train(32)
import importlib
profiler = importlib.import_module("torch.profiler").profile()
profiler.start()
train(10)
profiler.stop()
print(len(profiler.events()) > 100)
del profiler
train(60)
""",
)


@pytest.fixture
def place(work: Workplace) -> Workplace:
    return work


def recorded(place: Workplace, script: str, *options: str, steps: int = 100) -> tuple[Ended, dict]:
    """Run it with and without; only the prints may be compared, since the recording is asked for more."""
    place.write("train.py", script.replace("{steps}", str(steps)))
    plain = place.run("train.py", slowstep=False)
    ran = place.run("train.py", options=("--json", str(place.runs.parent / "report.json"), *options))
    assert (ran.code, ran.out) == (plain.code, plain.out), ran.err
    return ran, json.loads((place.runs.parent / "report.json").read_text())


def health(report: dict) -> dict[str, str]:
    return {row["name"]: row["remedy"] for row in report["health"]}


def test_the_captured_steps_are_a_trace_in_the_recording_and_no_part_of_the_ledger(place):
    ran, report = recorded(place, LOSSES, "--capture")

    assert "profiler_start" not in ran.err
    capture = report["run"]["capture"]
    assert capture["steps"] == "31-35"
    trace = json.loads(Path(capture["file"]).read_text())
    names = [event["name"] for event in trace["traceEvents"] if event.get("name", "").startswith("ProfilerStep#")]
    assert len(set(names)) == 5
    # One more than was captured: the step after it holds the writing of the file.
    plain = place.report("train.py")
    assert report["run"]["recorded_steps"] == plain["run"]["recorded_steps"]
    assert report["overhead"]["us_per_step"] > plain["overhead"]["us_per_step"]
    assert any("captured by torch.profiler" in note for note in report["run"]["notes"])
    assert "debug-mode-on" not in [row["rule"] for row in report["findings"]]


@pytest.mark.nightly
def test_other_steps_may_be_asked_for(place):
    _, report = recorded(place, LOSSES, "--capture=10-11", steps=60)

    assert report["run"]["capture"]["steps"] == "10-11"


def test_a_script_that_imports_a_profiler_is_left_alone(place):
    _, report = recorded(place, IMPORTS, "--capture")

    assert "imports a profiler" in health(report)["no-capture"]
    assert "capture" not in report["run"]


def test_ours_ends_at_once_where_the_script_starts_its_own(place):
    ran, report = recorded(place, STARTS_ITS_OWN, "--capture")

    assert ran.out.startswith("True")
    assert "profiler of its own" in health(report)["no-capture"]


ON_ANOTHER_THREAD = LOSSES.replace(", torch._C._autograd._profiler_enabled()", "").replace(
    "train({steps})",
    """
import importlib, threading
ours = sys.modules.get("slowstep.frameworks.torch.inside._capture")
if ours is not None and {patience} is not None:
    ours.PATIENCE_S = {patience}
def other():
    profiler = importlib.import_module("torch.profiler").profile()
    profiler.start()
    for _ in range(50):
        torch.zeros(9) + 1
    profiler.stop()
    print(len(profiler.events()) > 100)
train(32)
thread = threading.Thread(target=other)
thread.start()
thread.join({seconds})
train(60)
thread.join()
""",
)


@pytest.mark.parametrize(
    ("patience", "seconds", "said"),
    [
        pytest.param("None", "0", "of its own, on another thread", id="ended by the next update"),
        pytest.param("0.2", "5", "no update came within", id="left on", marks=pytest.mark.nightly),
    ],
)
def test_ours_makes_way_for_one_on_another_thread(place, patience, seconds, said):
    script = ON_ANOTHER_THREAD.replace("{patience}", patience).replace("{seconds}", seconds)

    ran, report = recorded(place, script, "--capture")

    assert ran.out.startswith("True")
    assert said in health(report)["no-capture"]


def test_a_training_that_fails_within_the_capture_is_told_so(place):
    failing = LOSSES.replace("train({steps})", "train(41)\nraise RuntimeError")

    _, report = recorded(place, failing, "--capture=40-44")

    assert health(report)["no-capture"] == "the recording ended within it, when 2 of its steps 40 to 44 were done"


@pytest.mark.nightly
def test_a_training_that_ends_before_the_capture_is_told_so(place):
    _, report = recorded(place, LOSSES, "--capture=90-94", steps=60)

    assert "before step 90" in health(report)["no-capture"]


def test_steps_that_cannot_be_meant_are_refused_before_the_command_starts(place):
    place.write("train.py", "open('started', 'w')")

    ran = place.run("train.py", options=("--capture=9-3",))

    assert ran.code == 125
    assert "--capture" in ran.err
    assert "started" not in ran.files


@pytest.mark.nightly
def test_a_profiler_that_waits_for_its_turn_is_left_alone(place):
    script = LOSSES.replace(
        "train({steps})",
        """
def main():
    waiting = torch.profiler.schedule(wait=35, warmup=1, active=4, repeat=1)
    with torch.profiler.profile(schedule=waiting, on_trace_ready=lambda it: print(len(it.events()) > 100)) as profiler:
        for _ in range(60):
            train(1)
            profiler.step()

main()
""",
    )

    _, report = recorded(place, script, "--capture=30-49")

    assert "waits for its turn" in health(report)["no-capture"]
