"""`slowstep prove` from an unmodified script to proofs; afterwards no file of the user's is changed and nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launching import Ended, Workplace
from sandboxed import looks_of
from slowstep.document.validity import validate
from slowstep.errors import NoSandbox
from slowstep.prove.sandbox.sandbox import open_sandbox

pytestmark = pytest.mark.timeout(480)
slow = pytest.mark.slow

LIMIT_S = 360
TRAIN = Path(__file__).resolve().parents[2] / "examples" / "case_study" / "train.py"

# A step of some 10 ms, and a problem of sleep: twice the step, whatever else the machine does.
SCRIPT = """\
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
problem = sys.argv[1]
steps = int(sys.argv[2])

class Numbers(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if problem == "loader":
            time.sleep(0.006)
        return torch.full((8,), float(index)), torch.zeros(1)

def plot():
    if problem == "callback":
        time.sleep(0.02)

def log(step):
    with open("train.log", "a") as file:
        file.write(f"{step}\\n")

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
loader = DataLoader(Numbers(), batch_size=4, shuffle=True)
done = 0
while done < steps:
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        time.sleep(0.008)
        optimizer.step()
        plot()
        log(done)
        done += 1
        if done % 20 == 0:
            torch.save(model.state_dict(), "latest.pt")
        if problem == "crash" and done == steps:
            raise RuntimeError("made to crash")
        if done == steps:
            break
"""
# A sampler that can be read once only: the loader cannot be built a second time in the same training.
ONCE = """\
class Once:
    def __init__(self):
        self.index = 0
    def __iter__(self):
        return self
    def __len__(self):
        return 1 << 20
    def __next__(self):
        self.index += 1
        return self.index % 64

loader = DataLoader(Numbers(), batch_size=4, sampler=Once())
"""
# It writes JSON lines, and its loader has a worker, which lever orders reach as JSON.
TOLD = (
    SCRIPT.replace("import os, sys, time\n", "import json, os, sys, time\n")
    .replace('file.write(f"{step}\\n")', 'file.write(json.dumps({"step": step}) + "\\n")')
    .replace("batch_size=4,", "batch_size=4, num_workers=1, persistent_workers=True,")
)
# Without its call a list stays empty that the script takes from; a loss that is no number spoils all weights.
FRAGILE = (
    SCRIPT.replace("torch.nn.functional.mse_loss(model(inputs), targets)", "scored(torch.nn.functional.mse_loss(model(inputs), targets))")
    .replace("        plot()\n", "        remember()\n        seen.pop()\n        plot()\n")
    .replace("lr=0.001", "lr=0.0")
)
FUNCTIONS = """
seen = []
def remember():
    seen.append(None)
def scored(loss):
    return loss
def spoilt(loss):
    return loss * float("nan")

model = """
NEVER_PRECISE = ("--precision", "0.01%")
NEVER = "import sys; print('nothing to train'); sys.exit(int(sys.argv[1]))\n"


@pytest.fixture
def place(work: Workplace) -> Iterator[Workplace]:
    """A folder with the script and a file that it appends to; the test is skipped where no sandbox is possible."""
    work.write("train.py", SCRIPT)
    work.write("brief.py", SCRIPT.replace("if done % 20 == 0:", "if done == 1000:").replace("lr=0.001", "lr=0.0"))
    work.write("never.py", NEVER)
    work.write("told.py", TOLD)
    work.write("fragile.py", FRAGILE.replace("\nmodel = ", FUNCTIONS))
    work.write("once.py", SCRIPT.replace("loader = DataLoader(Numbers(), batch_size=4, shuffle=True)\n", ONCE))
    work.write("train.log", "the user's own\n")
    try:
        recording = work.runs / "trial"
        recording.mkdir(parents=True)
        open_sandbox(recording, work.folder, allow_writes=False).close()
        recording.rmdir()
    except NoSandbox as error:
        pytest.skip(str(error))
    before = looks_of(work.folder)
    yield work
    assert looks_of(work.folder) == before


def proved(place: Workplace, *words: str, options: tuple[str, ...] = ()) -> tuple[Ended, dict[str, Any] | None]:
    """What a proof ended with, and its report."""
    target = place.runs.parent / "report.json"
    ended = place.run(*words, act="prove", options=("--json", str(target), "--seed", "1", *options), limit_s=LIMIT_S)
    report = json.loads(target.read_text()) if target.exists() else None
    if report is not None:
        validate(report)
    return ended, report


def analyzed(place: Workplace) -> str:
    """What `slowstep analyze` prints of the one recording."""
    return place.run(str(place.recording()), act="analyze", options=(), limit_s=60).out


def verdicts(report: dict[str, Any]) -> dict[str | None, str | None]:
    return {row["lever"]: row["verdict"] for row in report["experiments"]}


@slow
def test_the_lever_that_the_finding_names_is_proved(place: Workplace) -> None:
    ended, report = proved(place, "train.py", "callback", "100000", options=("--precision", "20%", "--budget", "40s"))

    assert ended.code in (0, 4), ended.err
    assert report is not None
    finding = next(row for row in report["findings"] if row["rule"] == "slow-callback")
    assert verdicts(report)["stub=__main__:plot"] == "proved"
    assert finding["gain"]["measured"]["low"] > 1.5
    assert report["run"]["experiment"]["sandbox"]["claims"] == "no file changed"
    assert "PROVED slow-callback" in ended.out
    assert analyzed(place) == ended.out


# Whether workers can be switched is shown in test_input_levers.py and test_sandbox.py, and that a gain is proved by the test above.
@pytest.mark.nightly
@slow
def test_workers_are_proved_for_a_loader_that_has_none(place: Workplace) -> None:
    options = ("--levers", "workers=2", "--precision", "20%", "--budget", "40s")
    ended, report = proved(place, "train.py", "loader", "100000", options=options)

    assert ended.code in (0, 4), ended.err
    assert report is not None
    assert verdicts(report)["workers=2"] == "proved"
    assert next(row for row in report["experiments"] if row["lever"] == "workers=2")["rule"] == "serial-loader"


@pytest.mark.nightly
@slow
def test_workers_of_a_loader_that_cannot_be_built_again_are_proved_by_whole_runs(place: Workplace) -> None:
    # Eight runs of 5 s and a start-up must fit into twice the budget: so start-ups may take up to 10 s.
    ended, report = proved(place, "once.py", "loader", "100000", options=("--levers", "workers=2", "--budget", "60s"))

    assert ended.code in (0, 4), ended.err
    assert report is not None
    row = next(row for row in report["experiments"] if row["lever"] == "workers=2")
    assert (row["how"], row["verdict"]) == ("re-runs", "proved"), row
    assert row["reason"] == "it could not be switched (its sampler, a Once, is an iterator and can be read once only)"
    assert "Compares whole runs for workers=2, which cannot be switched in a running training." in ended.err
    assert f"measured by {row['rounds']} pairs of whole runs" in " ".join(ended.out.split())
    assert not (place.recording() / "re-runs").exists()
    assert analyzed(place) == ended.out


@slow
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_whole_runs_that_are_ended_leave_nothing_but_what_is_known(place: Workplace, number: signal.Signals) -> None:
    options = ("--levers", "workers=2", "--budget", "120s")
    process = place.start("once.py", "loader", "100000", act="prove", options=options, start_new_session=True)
    wait_until(lambda: any(place.runs.glob("*/re-runs/*/*.rec")), 120)
    recording = place.recording()
    os.killpg(process.pid, number)
    ended = place.finish(process, 60)

    if number == signal.SIGINT:
        assert ended.code == 130, ended.err
        assert "whole runs were not compared: they ended too soon" in " ".join(ended.out.split())
        assert not (recording / "re-runs").exists()
    wait_until(lambda: not [*recording.glob("scratch"), *recording.glob("re-runs/*/scratch"), *place.temp.iterdir()], 10)


@slow
def test_a_script_that_ends_too_early_is_started_again_until_the_gain_is_proved(place: Workplace) -> None:
    # It saves nothing, so that blocks are short: a start has some five rounds.
    ended, report = proved(place, "brief.py", "callback", "120", options=("--budget", "120s", "--precision", "40%"))

    assert ended.code in (0, 4), ended.err
    assert report is not None
    starts = report["run"]["experiment"]["starts"]
    assert starts[0]["came_to_its_end"]
    assert len(starts) > 1
    assert sum(start["rounds"] for start in starts) >= 4, ended.err
    assert verdicts(report)["stub=__main__:plot"] == "proved"
    assert " of the script; " in " ".join(ended.out.split())
    assert not [*place.recording().glob("**/scratch")]
    assert analyzed(place) == ended.out


@slow
def test_a_script_of_too_few_steps_for_a_round_is_diagnosed_at_least(place: Workplace) -> None:
    ended, report = proved(place, "train.py", "callback", "12", options=("--levers", "stub=__main__:plot"))

    assert report is not None
    assert ended.code == (0 if report["verdict"]["state"] == "healthy" else 3), ended.err
    assert {row["state"] for row in report["experiments"]} <= {"unmeasured", "untried"}
    assert "it is not started again" in " ".join(ended.err.split())


@slow
def test_a_script_that_crashes_shows_its_last_words_and_ends_with_1(place: Workplace) -> None:
    ended, report = proved(place, "train.py", "crash", "60")

    assert ended.code == 1
    assert "RuntimeError: made to crash" in ended.err
    assert report is not None


@slow
@pytest.mark.parametrize(
    ("lever", "verdict", "reason"),
    [
        ("stub=__main__:remember", None, "the script ended with exit code 1 while it was on (IndexError: pop from empty list)"),
        pytest.param(
            "swap=__main__:scored=__main__:spoilt",
            "loss not finite",
            "the loss was not finite while it was on",
            marks=pytest.mark.nightly,
        ),
    ],
)
@pytest.mark.nightly
def test_what_a_script_cannot_go_on_with_is_said_and_the_others_are_measured_without_it(
    place: Workplace, lever: str, verdict: str | None, reason: str
) -> None:
    levers = ("--levers", f"{lever},stub=__main__:plot", "--budget", "20s", "--precision", "30%")
    ended, report = proved(place, "fragile.py", "callback", "100000", options=levers)

    assert ended.code in (0, 4), ended.err
    assert report is not None
    rows = {row["lever"]: row for row in report["experiments"]}
    assert (rows[lever]["state"], rows[lever]["verdict"]) == ("failed", verdict)
    assert rows[lever]["reason"].startswith(reason)
    assert rows["stub=__main__:plot"]["state"] == "measured"
    assert "Starts again without it" in ended.err
    assert analyzed(place) == ended.out


@slow
@pytest.mark.parametrize("function", ["json:dumps", pytest.param("time:sleep", marks=pytest.mark.nightly)])
def test_a_function_that_slowstep_needs_itself_is_left_out_of_the_script_alone(place: Workplace, function: str) -> None:
    levers = ("--levers", f"stub={function}", "--budget", "10s", "--precision", "30%")
    ended, report = proved(place, "told.py", "none", "100000", options=levers)

    assert ended.code == 0, ended.err
    assert report is not None
    assert {row["lever"]: row["state"] for row in report["experiments"]}[f"stub={function}"] == "measured"
    notes = [json.loads(line) for path in place.recording().glob("*.jsonl") for line in path.read_text().splitlines() if line]
    assert all("kind" in note for note in notes)
    effects = [note for note in notes if note["kind"] == "lever" and note["state"] == "effect"]
    steps = sum(note["steps"] for note in notes if note["kind"] == "block" and note["arm"] == effects[-1]["arm"])
    # Six in five: the first step of each block is not counted. The sampler's own sleeps, where they did not sleep, were as many as these.
    assert steps <= effects[-1]["effect"] <= 1.5 * steps


@pytest.mark.slow
@pytest.mark.parametrize(("exit_code", "code"), [(0, 3), pytest.param(7, 1, marks=pytest.mark.slow)])
def test_a_script_that_never_trains_says_so(place: Workplace, exit_code: int, code: int) -> None:
    ended, report = proved(place, "never.py", str(exit_code))

    assert (ended.code, report) == (code, None)
    assert "no training step was recorded" in ended.err
    assert ("nothing to train" in ended.err) == bool(exit_code)


@slow
@pytest.mark.nightly
def test_ctrl_c_in_the_middle_shows_a_partial_table(place: Workplace) -> None:
    process = place.start("train.py", "callback", "100000", act="prove", options=NEVER_PRECISE, start_new_session=True)
    wait_until(lambda: any(place.runs.glob("*/plan.json")), 120)
    time.sleep(5)
    os.killpg(process.pid, signal.SIGINT)
    ended = place.finish(process, 60)

    assert ended.code == 130, ended.err
    assert "what was tested" in ended.out
    assert "; it was interrupted" in " ".join(ended.out.split())


@slow
@pytest.mark.parametrize(
    "file",
    [
        pytest.param("launcher.rec", id="before its process", marks=pytest.mark.nightly),
        pytest.param("output.txt", id="with its process"),
    ],
)
def test_ctrl_c_while_it_starts_leaves_nothing_and_gives_no_advice(place: Workplace, file: str) -> None:
    process = place.start("train.py", "callback", "100000", act="prove", start_new_session=True)
    wait_until(lambda: any(place.runs.glob(f"*/{file}")), 120)
    os.killpg(process.pid, signal.SIGINT)
    ended = place.finish(process, 60)

    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith("slowstep: interrupted before enough of the training was seen for a report\n")
    assert not any(place.runs.glob("*/launcher.rec"))


@slow
def test_a_proof_that_is_terminated_leaves_nothing(place: Workplace) -> None:
    before = looks_of(place.folder)
    process = place.start("train.py", "callback", "100000", act="prove")
    wait_until(lambda: any(place.runs.glob("*/plan.json")), 120)
    assert len(place.left(0.0)) > 1
    process.send_signal(signal.SIGTERM)
    ended = place.finish(process, 60)

    assert ended.code == -signal.SIGTERM
    assert place.left() == []
    assert looks_of(place.folder) == before
    wait_until(lambda: not (place.recording() / "scratch").exists(), 10)
    assert list(place.temp.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--levers", "werkers=4"), "no lever is called 'werkers'. Did you mean workers?"),
        pytest.param(("--levers", ","), "--levers needs at least one lever", marks=slow),
        pytest.param(("--levers", "mock-loader", "--all"), "exclude each other", marks=slow),
        pytest.param(("--sandbox", "docker"), "give overlay or copy", marks=slow),
        pytest.param(("--json", "nowhere/report.json"), "there is no folder", marks=slow),
    ],
)
def test_a_mistake_is_said_before_anything_starts(place: Workplace, options: tuple[str, ...], complaint: str) -> None:
    ended = place.run("train.py", "callback", "10", act="prove", options=options)

    assert ended.code == 2
    assert complaint in ended.err
    assert [path.name for path in place.runs.iterdir()] == []


@pytest.mark.slow
def test_a_script_that_does_not_exist_is_a_mistake_too(place: Workplace) -> None:
    ended = place.run("nothere.py", act="prove")

    assert ended.code == 2
    assert "there is no script 'nothere.py'" in ended.err


@pytest.mark.slow
def test_what_belongs_to_the_command_is_left_to_it(place: Workplace) -> None:
    ended = place.run("never.py", "0", "--help", "--levers", "nonsense", act="prove")

    assert ended.code == 3
    assert "no training step was recorded" in ended.err


CASES = [
    pytest.param("serial-loader", None, "workers=", id="serial-loader"),
    # Beside the remedy a lever that is none: batches lie ready, and no more of them are of use. (Batches that nobody makes would be: where
    # two processors share a core, the training beside the worker gains a sixteenth.)
    pytest.param("slow-callback", "stub=__main__:save_mask_images,prefetch=4", "stub=", id="slow-callback"),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("variant", "levers", "right"), CASES)
def test_the_case_studys_problems_are_proved(work: Workplace, pictures: Path, variant: str, levers: str | None, right: str) -> None:
    options = ("--budget", "45s", "--precision", "20%", *(("--levers", levers) if levers else ()))
    words = (str(TRAIN), "--variant", variant, "--steps", "100000", "--data", str(pictures))
    if variant == "serial-loader":
        # Most of the step is sleep, whatever others do to the machine; epochs are long, since workers are started anew at each.
        words = (*words, "--read-latency-ms", "8", "--batch-size", "4")
    ended, report = proved(work, *words, options=options)

    assert ended.code in (0, 4), ended.err
    assert report is not None
    found = verdicts(report)
    assert [verdict for lever, verdict in found.items() if lever and lever.startswith(right)] == ["proved"], found
    assert found.get("prefetch=4") != "proved"


@pytest.mark.nightly
def test_nothing_is_proved_of_the_healthy_base(work: Workplace, pictures: Path) -> None:
    words = (str(TRAIN), "--steps", "100000", "--data", str(pictures))
    ended, report = proved(work, *words, options=("--budget", "20s", "--levers", "prefetch=4"))

    assert ended.code in (0, 4), ended.err
    assert report is not None
    assert "proved" not in verdicts(report).values()


def wait_until(happened: Any, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
