"""A training that fails, hangs or misbehaves under `slowstep run`: it ends as it would without, and what was recorded is kept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launching import SLOWSTEP, TRAINING, Workplace, assert_same, on_small_disk
from slowstep.record.system import processes
from small_torch import TRAINING as LIGHT

pytest.importorskip("torch")

# Which of the twenty moments is tried in the everyday suite too.
KILLS = [pytest.param(seed, marks=[] if seed == 0 else pytest.mark.nightly) for seed in range(20)]


def wait_for_steps(work: Workplace, count: int, process: subprocess.Popen[str], file: str = "steps") -> None:
    """Until the script has counted that many steps, or has written that many characters into another file of its own."""
    counted = work.folder / file
    deadline = time.monotonic() + 60
    while not counted.exists() or counted.stat().st_size < count:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


def trainer_of(process: subprocess.Popen[str], script: str = "train.py") -> int:
    """The process below slowstep that runs the script."""
    return next(pid for pid in processes.tree(process.pid) if pid != process.pid and script in processes.command_line(pid)[1:2])


def steps_counted(work: Workplace) -> int:
    return (work.folder / "steps").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("seed", KILLS)
def test_kill_9_of_the_training_loses_no_finished_step(work: Workplace, seed: int) -> None:
    work.write("train.py", TRAINING + "train(10**6)\n")
    chosen = random.Random(seed)
    process = work.start("train.py")
    wait_for_steps(work, chosen.randrange(1, 60), process)
    time.sleep(chosen.uniform(0, 0.01))

    os.kill(trainer_of(process), signal.SIGKILL)

    assert work.finish(process).code == 137
    assert steps_counted(work) <= work.updates() <= steps_counted(work) + 1


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_kill_9_of_slowstep_leaves_the_training_alone(work: Workplace) -> None:
    work.write("train.py", LIGHT + "train(100)\nopen('done', 'w').write('done')\n")
    process = work.start("train.py")
    wait_for_steps(work, 10, process)

    process.kill()
    process.communicate(timeout=60)

    assert work.left(patience_s=60) == []
    assert (work.folder / "done").read_text() == "done"
    assert work.updates() == 100
    later = subprocess.run([*SLOWSTEP, "analyze", str(work.recording())], capture_output=True, text=True, timeout=60, check=False)
    assert later.returncode == 0, later.stderr
    assert "steps/s" in later.stdout


@pytest.mark.slow
def test_an_exception_ends_as_without_slowstep(work: Workplace) -> None:
    work.write("train.py", TRAINING + "train(40)\ntrain('many' + 1)\n")

    plain, recorded = work.both("train.py")

    assert plain.code == 1
    assert "Traceback" in plain.err
    assert_same(plain, recorded)
    assert work.updates() == 40


@pytest.mark.nightly
@pytest.mark.slow
def test_an_exception_inside_what_is_hooked_shows_no_frame_of_ours(work: Workplace) -> None:
    raises = (
        "class Bad(torch.utils.data.Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, index): raise KeyError(index)\n"
    )
    work.write("train.py", TRAINING + raises + "for batch in DataLoader(Bad()): pass\n")

    plain, recorded = work.both("train.py")

    assert plain.code == 1
    assert_same(plain, recorded)


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_a_crash_before_the_first_step_is_no_recording_and_no_second_crash(work: Workplace) -> None:
    work.write("train.py", LIGHT + "raise RuntimeError('at step 0')\n")

    plain, recorded = work.both("train.py")

    assert_same(plain, recorded)
    assert "no training step was recorded" in recorded.err
    assert recorded.err.count("Traceback") == 1


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_os_exit_keeps_code_and_steps(work: Workplace) -> None:
    work.write("train.py", LIGHT + "train(40)\nos._exit(9)\n")

    plain, recorded = work.both("train.py")

    assert plain.code == 9
    assert_same(plain, recorded)
    assert work.updates() == 40


@pytest.mark.slow
def test_ctrl_c_ends_as_without_slowstep(work: Workplace) -> None:
    work.write("train.py", TRAINING + "try:\n    train(10**6)\nfinally:\n    print('clean-up ran')\n")
    ended = []
    for slowstep in (False, True):
        process = work.start("train.py", slowstep=slowstep, start_new_session=True)
        wait_for_steps(work, 20, process)
        os.killpg(process.pid, signal.SIGINT)
        ended.append(work.finish(process))
        os.unlink(work.folder / "steps")

    plain, recorded = ended
    # Popen shows the signal itself, a shell and slowstep 128 and its number.
    assert (plain.code, recorded.code) == (-2, 130)
    assert recorded.out == plain.out == "clean-up ran\n"
    assert recorded.err.count("Traceback") == plain.err.count("Traceback") == 1
    assert "samples/s" in recorded.err


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
@pytest.mark.parametrize("hang", [pytest.param("thread", marks=pytest.mark.nightly), "atexit"])
def test_a_script_that_hangs_at_its_end_hangs_as_without_slowstep_and_is_reported_when_it_is_ended(work: Workplace, hang: str) -> None:
    sleep = "(lambda: (pathlib.Path('at-end').write_text('.'), time.sleep(600)))"
    start = {"thread": f"threading.Thread(target={sleep}).start()", "atexit": f"atexit.register({sleep})"}[hang]
    work.write("train.py", LIGHT + f"import atexit, pathlib, threading, time\ntrain(40)\n{start}\n")
    ended = []
    for slowstep in (False, True):
        process = work.start("train.py", slowstep=slowstep, start_new_session=True)
        wait_for_steps(work, 40, process)
        wait_for_steps(work, 1, process, "at-end")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        os.killpg(process.pid, signal.SIGINT)
        ended.append(work.finish(process))
        os.unlink(work.folder / "at-end")
        os.unlink(work.folder / "steps")

    plain, recorded = ended
    assert recorded.code == plain.code
    assert "steps/s" in recorded.err
    assert work.updates() == 40


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_sigterm_lets_the_script_clean_up_and_keeps_its_exit_code(work: Workplace) -> None:
    handler = "import signal\ndef leave(*_):\n    print('clean-up ran'); sys.exit(4)\nsignal.signal(signal.SIGTERM, leave)\n"
    work.write("train.py", LIGHT + handler + "train(10**6)\n")
    process = work.start("train.py")
    wait_for_steps(work, 40, process)

    process.send_signal(signal.SIGTERM)

    ended = work.finish(process)
    assert (ended.code, ended.out) == (4, "clean-up ran\n")
    assert "steps/s" in ended.err


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
@pytest.mark.parametrize("where", [pytest.param("folder", marks=pytest.mark.nightly), "temp"])
def test_a_script_that_changes_folder_or_deletes_its_temporary_files_is_recorded(work: Workplace, where: str) -> None:
    leaves = {
        "folder": "os.makedirs('elsewhere', exist_ok=True); os.chdir('elsewhere'); train(40); print(os.getcwd())\n",
        "temp": "import shutil, tempfile; shutil.rmtree(tempfile.gettempdir()); train(40); os.mkdir(tempfile.gettempdir())\n",
    }
    work.write("train.py", LIGHT + leaves[where])

    plain, recorded = work.both("train.py")

    assert plain.code == 0
    assert_same(plain, recorded)
    assert work.updates() == 40


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_a_script_that_deletes_the_recording_goes_on(work: Workplace) -> None:
    deletes = f"import shutil; shutil.rmtree({str(work.runs)!r}, ignore_errors=True)\n"
    work.write("train.py", LIGHT + "train(20)\n" + deletes + "train(200)\nprint('done')\n")

    plain, recorded = work.both("train.py")

    assert plain.code == 0
    assert_same(plain, recorded)
    assert "Traceback" not in recorded.err


@pytest.mark.slow
def test_a_fork_after_import_is_recorded_and_left_alone(work: Workplace) -> None:
    fork = "pid = os.fork()\nif pid == 0:\n    train(30)\n    os._exit(0)\nprint(os.waitpid(pid, 0)[1])\ntrain(40)\n"
    work.write("train.py", TRAINING + fork)

    plain, recorded = work.both("train.py")

    assert (plain.code, plain.out) == (0, "0\n")
    assert_same(plain, recorded)
    assert work.updates() == 70


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_a_sitecustomize_of_the_users_is_run_and_the_training_is_recorded(work: Workplace) -> None:
    work.write("sitecustomize.py", "print('theirs')\n")
    work.write("train.py", LIGHT + "import sitecustomize\nprint(sitecustomize.__file__)\ntrain(40)\n")
    theirs = os.pathsep.join([str(work.folder), work.variables["PYTHONPATH"]])

    plain, recorded = work.both("train.py", env=work.environment(PYTHONPATH=theirs))

    # slowstep runs in this environment too, and is greeted as well: first or last, by how much of its output Python keeps back.
    assert plain.out.startswith("theirs\n")
    assert sorted(recorded.out.splitlines()) == sorted(["theirs", *plain.out.splitlines()])
    assert work.updates() == 40


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
@pytest.mark.parametrize("words", [("-m", "pkg.train"), ("sh", "run.sh"), pytest.param(("python", "train.py"), marks=pytest.mark.nightly)])
def test_however_python_is_started_the_training_is_recorded(work: Workplace, words: tuple[str, ...]) -> None:
    (work.folder / "pkg").mkdir()
    for name in ("train.py", "pkg/train.py"):
        work.write(name, LIGHT + "train(40)\n")
    work.write("run.sh", f"{sys.executable} train.py\nexit 6\n")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

    ended = work.run(*words, env=work.environment(PATH=path))

    assert ended.code == (6 if words[0] == "sh" else 0)
    assert work.updates() == 40
    assert "steps/s" in ended.err


@pytest.mark.nightly
@pytest.mark.slow
def test_an_isolated_python_is_not_reached_and_the_message_says_why(work: Workplace) -> None:
    work.write("train.py", TRAINING + "train(200)\n")

    ended = work.run(sys.executable, "-I", "train.py")

    assert ended.code == 0
    assert "started with -I" in ended.err
    assert "import slowstep.auto" in ended.err


@pytest.mark.usefixtures("small_torch")
@pytest.mark.nightly
@pytest.mark.slow
def test_closed_standard_output_stays_closed(work: Workplace) -> None:
    held = "[os.readlink(f'/proc/self/fd/{number}') for number in (0, 1, 2) if os.path.exists(f'/proc/self/fd/{number}')]"
    work.write("train.py", LIGHT + f"train(40)\nfiles = {held}\nopen('files', 'w').write(f'{{sys.stdout}} {{files}}')\n")
    own = " ".join(f"'{word}'" for word in SLOWSTEP)

    process = subprocess.run(
        ["sh", "-c", f"{own} run --out '{work.runs}' train.py >&-"],
        cwd=work.folder,
        env=work.environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=90,
        check=False,
    )

    assert process.returncode == 0
    assert "steps/s" in process.stderr
    # Whatever file the script opens first gets the free number 1, as without slowstep: none of ours may hold it.
    held_files = (work.folder / "files").read_text()
    assert held_files.startswith("None ")
    assert str(work.runs) not in held_files
    assert work.updates() == 40


@pytest.mark.usefixtures("small_torch")
@pytest.mark.nightly
@pytest.mark.slow
def test_two_trainings_at_once_keep_apart(work: Workplace) -> None:
    work.write("train.py", LIGHT + "train(40)\n")

    running = [work.start("train.py") for _ in range(2)]

    assert [work.finish(process).code for process in running] == [0, 0]
    folders = [path for path in work.runs.iterdir() if path.name != ".gitignore"]
    assert len(folders) == 2
    assert all(len(list(folder.glob("[0-9]*.rec"))) == 1 for folder in folders)


FILLS_THE_DISK = """
train(100)
if folder := os.environ.get("SLOWSTEP_RECORDING"):
    with open(f"{folder}/filler", "wb", buffering=0) as filler:
        try:
            while filler.write(bytes(256)):
                pass
        except OSError:
            pass
train(300)
print("done")
"""


@pytest.mark.slow
def test_a_full_disk_ends_the_recording_and_not_the_training(work: Workplace) -> None:
    work.write("train.py", TRAINING + FILLS_THE_DISK)
    disk, script = work.runs, str(work.folder / "train.py")
    work.runs = work.runs.with_name("copied")
    slowstep = on_small_disk(disk, "4m", work.runs, *SLOWSTEP, "run", "--out", str(disk), script)

    plain = work.run(script, slowstep=False)
    (work.folder / "steps").unlink()
    recorded = work.run(*slowstep, slowstep=False)

    assert (plain.code, plain.out) == (0, "done\n")
    assert_same(plain, recorded)
    assert "Traceback" not in recorded.err
    assert 0 < work.updates() < 400


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_nothing_of_ours_is_left_beside_the_recording(work: Workplace) -> None:
    work.write("train.py", LIGHT + "train(40)\n")
    work.run("train.py", slowstep=False)
    without = sorted(work.temp.rglob("*"))

    work.run("train.py")

    assert sorted(path.name for path in work.recording().iterdir() if not path.name[0].isdigit()) == [
        "launcher.jsonl",
        "launcher.rec",
        "report.json",
    ]
    assert sorted(work.temp.rglob("*")) == without


@pytest.mark.usefixtures("small_torch")
@pytest.mark.slow
def test_output_of_a_child_in_another_python_is_left_alone(work: Workplace) -> None:
    inner = f"import subprocess\nprint(subprocess.run([{sys.executable!r}, '-c', 'print(1)'], capture_output=True))\ntrain(30)\n"
    work.write("train.py", LIGHT + inner)

    plain, recorded = work.both("train.py")

    assert_same(plain, recorded)
    assert len(list(Path(work.recording()).glob("[0-9]*.rec"))) == 1
