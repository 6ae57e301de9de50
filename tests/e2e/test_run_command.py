"""`slowstep run` around commands that need no framework: what the user sees is what they see without."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from _pytest.mark import ParameterSet

from launching import SLOWSTEP, Workplace, assert_same
from slowstep.record.system import processes

ECHO = """\
import os, sys
print(sys.argv[1:], sys.path[0], os.getcwd(), os.isatty(0), sys.stdin.read())
print("to stderr", file=sys.stderr)
print(sorted(name for name in os.environ if not name.startswith("SLOWSTEP") and name != "PYTHONPATH"))
sys.exit(7)
"""

COUNTS_SIGNALS = """\
import signal, sys, time
seen = []
signal.signal(int(sys.argv[1]), lambda number, frame: seen.append(number))
print("ready", flush=True)
deadline = time.monotonic() + 30
while not seen and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.5)
print(len(seen))
sys.exit(5)
"""


def more_slowly(*cases: object) -> list[ParameterSet]:
    """Cases that are left out of the quick tests, as each starts Python twice or more."""
    return [pytest.param(case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize("words", [("echo.py",), ("./bare.sh",), *more_slowly(("-m", "echo"), ("sh", "script.sh"), ("./script.sh",))])
def test_a_command_keeps_its_arguments_streams_and_exit_code(work: Workplace, words: tuple[str, ...]) -> None:
    work.write("echo.py", ECHO)
    work.write("script.sh", f'#!/bin/sh\nexec {sys.executable} echo.py "$@"\n', 0o755)
    work.write("bare.sh", f'{sys.executable} echo.py "$@"\n', 0o755)

    plain = recorded = None
    if words == ("./bare.sh",):
        # Only a shell starts a script without a `#!` line.
        plain = work.run("sh", "bare.sh", "--steps", "--help", slowstep=False)
        recorded = work.run(*words, "--steps", "--help")
    else:
        plain, recorded = work.both(*words, "--steps", "--help", "--")

    assert plain.code == 7
    assert_same(plain, recorded)


@pytest.mark.slow
def test_our_options_may_end_with_two_dashes(work: Workplace) -> None:
    work.write("echo.py", "import sys; print(sys.argv[1:])")

    ended = work.run("--", "echo.py", "-x")

    assert (ended.code, ended.out) == (0, "['-x']\n")


def test_standard_input_reaches_the_command(work: Workplace) -> None:
    process = work.start("cat", stdin=subprocess.PIPE)

    out, _ = process.communicate("hello\n", timeout=60)

    assert (process.returncode, out) == (0, "hello\n")


@pytest.mark.slow
def test_files_passed_on_by_the_caller_reach_the_command(work: Workplace) -> None:
    read, write = os.pipe()
    process = work.start(sys.executable, "-c", f"import os; os.write({write}, b'hello')", pass_fds=[write])
    os.close(write)

    ended = work.finish(process)

    assert (ended.code, os.read(read, 100)) == (0, b"hello")
    os.close(read)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("no-such-command",), 127, "no-such-command"),
        (("./data.txt",), 126, "chmod"),
        pytest.param(("no_such_script.py",), 127, "no_such_script.py", marks=pytest.mark.slow),
        pytest.param(("./broken.sh",), 127, "interpreter", marks=pytest.mark.slow),
    ],
)
def test_a_command_that_cannot_start_leaves_nothing_but_a_message(work: Workplace, words: tuple[str, ...], code: int, text: str) -> None:
    work.write("data.txt", "")
    work.write("broken.sh", "#!/no/such/interpreter\n", 0o755)

    ended = work.run(*words)

    assert (ended.code, ended.out) == (code, "")
    assert text in ended.err
    assert "Traceback" not in ended.err
    assert not work.runs.exists() or os.listdir(work.runs) == [".gitignore"]


@pytest.mark.parametrize(
    "options",
    [
        ("--for", "soon"),
        ("--no-such-option",),
        *more_slowly(
            ("--json", "train.py"), ("--steps", "0"), ("--stop",), ("--level", "3"), ("--json", "."), ("--json", "no/such/folder/x.json")
        ),
    ],
)
def test_a_mistake_in_our_options_ends_with_125_before_the_start(work: Workplace, options: tuple[str, ...]) -> None:
    work.write("train.py", "open('started', 'w')")

    ended = work.run("train.py", options=options)

    assert (ended.code, ended.out) == (125, "")
    assert "Traceback" not in ended.err
    assert str(work.folder / "started") not in ended.files


@pytest.mark.slow
def test_a_script_in_the_place_of_a_reports_file_is_neither_run_nor_written_over(work: Workplace) -> None:
    work.write("train.py", "open('started', 'w')")

    ended = work.run(options=("--json", "train.py"))

    assert ended.code == 125
    assert "train.py was taken for the value of --json" in ended.err
    assert bytes.fromhex(ended.files[str(work.folder / "train.py")]) == b"open('started', 'w')"
    assert str(work.folder / "started") not in ended.files


@pytest.mark.slow
def test_an_unwritable_output_folder_ends_with_125_and_says_where_to_write_instead(work: Workplace) -> None:
    work.write("train.py", "open('started', 'w')")
    work.write("file", "")

    ended = work.run("train.py", options=("--out", "file/runs"))

    assert ended.code == 125
    assert "--out DIR" in ended.err
    assert str(work.folder / "started") not in ended.files


@pytest.mark.parametrize("number", [signal.SIGKILL, *more_slowly(signal.SIGTERM, signal.SIGSEGV)])
def test_a_command_ended_by_a_signal_ends_with_128_and_its_number(work: Workplace, number: signal.Signals) -> None:
    ended = work.run("sh", "-c", f"kill -{number.value} $$")

    assert ended.code == 128 + number


@pytest.mark.slow
def test_the_command_starts_with_the_signals_that_slowstep_was_started_with(work: Workplace) -> None:
    # The C library keeps 32 and 33 to itself.
    work.write(
        "show.py",
        "for line in open('/proc/self/status'):\n"
        "    if line[:6] in ('SigBlk', 'SigIgn', 'ShdPnd'): print(line[:6], hex(int(line[8:], 16) & ~(3 << 31)))\n",
    )

    def ignore_and_block() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    plain, recorded = work.both("show.py", preexec_fn=ignore_and_block)

    assert plain.out.startswith("ShdPnd 0x0\nSigBlk 0x800\n")
    assert recorded.out == plain.out


def test_disabled_runs_the_command_plainly_and_says_so(work: Workplace) -> None:
    work.write("train.py", "import os; print(os.environ.get('SLOWSTEP_RECORDING'), os.environ.get('PYTHONPATH')); raise SystemExit(3)")
    environment = {name: value for name, value in work.environment(SLOWSTEP_DISABLE="1").items() if name != "PYTHONPATH"}

    ended = work.run("train.py", env=environment)

    assert (ended.code, ended.out) == (3, "None None\n")
    assert "SLOWSTEP_DISABLE" in ended.err
    assert not work.runs.exists()


def test_a_script_that_never_trains_is_told_what_was_looked_for(work: Workplace) -> None:
    work.write("work.py", "print('no training')")

    ended = work.run("work.py", options=("--json", "report.json"))

    assert (ended.code, ended.out) == (0, "no training\n")
    assert "work.py" in ended.err
    assert "imported none of PyTorch" in ended.err
    assert "Traceback" not in ended.err
    assert str(work.folder / "report.json") not in ended.files


@pytest.mark.slow
def test_a_run_in_which_nothing_was_recorded_leaves_no_folder(work: Workplace) -> None:
    work.write("work.py", "print('no training')")

    for _ in range(2):
        assert work.run("work.py", options=("--out", "slowstep_runs")).code == 0

    assert not (work.folder / "slowstep_runs").exists()


@pytest.mark.slow
def test_a_python_that_ignores_the_environment_is_named(work: Workplace) -> None:
    work.write("run.sh", f"{sys.executable} -I -c 'import time; time.sleep(1)'\n")

    ended = work.run("sh", "run.sh")

    assert ended.code == 0
    assert "-I" in ended.err
    assert "ignore PYTHONPATH" in ended.err


@pytest.mark.slow
def test_two_runs_at_once_keep_apart(work: Workplace) -> None:
    # What outlives the commands keeps the recordings.
    running = [work.start("sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!") for _ in range(2)]
    ended = [work.finish(process) for process in running]

    assert [each.code for each in ended] == [0, 0]
    folders = [path for path in work.runs.iterdir() if path.name != ".gitignore"]
    assert len(folders) == 2
    for each in ended:
        os.kill(int(each.out), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_outlives_the_command_keeps_what_it_needs(work: Workplace) -> None:
    process = work.start("sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!", options=("--out", "runs"))

    ended = work.finish(process)

    sleeper = int(ended.out)
    (folder,) = [path for path in (work.folder / "runs").iterdir() if path.name != ".gitignore"]
    assert (folder / "inject" / "sitecustomize.py").exists()
    assert "processes-left" in (folder / "launcher.jsonl").read_text()
    os.kill(sleeper, signal.SIGKILL)


@pytest.mark.slow
def test_with_closed_streams_the_command_finds_them_closed_too(work: Workplace) -> None:
    show = "ls -l /proc/self/fd > fds.txt; test ! -e /proc/$$/fd/1 && test ! -e /proc/$$/fd/2 && echo closed > answer.txt"
    work.write("show.sh", show)
    own = " ".join(f"'{word}'" for word in SLOWSTEP)

    process = subprocess.run(
        ["sh", "-c", f"{own} run --out runs sh show.sh >&- 2>&-"], cwd=work.folder, env=work.environment(), timeout=60, check=False
    )

    assert process.returncode == 0
    assert (work.folder / "answer.txt").read_text() == "closed\n"
    # Without a training nothing is kept, and slowstep came as far as to find that out.
    assert not (work.folder / "runs").exists() or [path.name for path in (work.folder / "runs").iterdir()] == [".gitignore"]


# Where streams are buffered, Python would end with 120 for what nobody has read.
@pytest.mark.slow
@pytest.mark.parametrize("buffered", ["1", *more_slowly("")])
def test_a_reader_that_went_away_does_not_change_the_exit_code(work: Workplace, buffered: str) -> None:
    read, write = os.pipe()
    process = work.start("sh", "-c", "exit 3", stderr=write, env=work.environment(PYTHONUNBUFFERED=buffered))
    os.close(read)
    os.close(write)

    process.communicate(timeout=60)

    assert process.returncode == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, *more_slowly(signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)])
def test_a_signal_to_slowstep_reaches_the_command_once(work: Workplace, number: signal.Signals) -> None:
    work.write("wait.py", COUNTS_SIGNALS)
    process = work.start("wait.py", str(number.value), start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    os.kill(process.pid, number)

    ended = work.finish(process)
    assert (ended.code, ended.out) == (5, "1\n")


@pytest.mark.slow
def test_a_signal_to_the_whole_group_reaches_the_command_once(work: Workplace) -> None:
    work.write("wait.py", COUNTS_SIGNALS)
    process = work.start("wait.py", str(signal.SIGTERM.value), start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    os.killpg(process.pid, signal.SIGTERM)

    ended = work.finish(process)
    assert (ended.code, ended.out) == (5, "1\n")


def test_ctrl_c_of_a_terminal_reaches_the_command_once_and_slowstep_not_at_all(work: Workplace) -> None:
    work.write("wait.py", COUNTS_SIGNALS)

    screen = in_terminal(work, [*SLOWSTEP, "run", "--out", "runs", "wait.py", "2"], keys=b"\x03")

    assert "1\r\n" in screen
    assert "code 5" in screen


@pytest.mark.slow
def test_ctrl_z_stops_both_and_fg_goes_on(work: Workplace) -> None:
    work.write("wait.py", COUNTS_SIGNALS)
    own = " ".join(repr(word) for word in SLOWSTEP)
    shell = f"set -m; {own} run --out runs wait.py {signal.SIGUSR1.value}; echo stopped $?; fg; echo code $?"

    screen = in_terminal(work, ["bash", "-c", shell], keys=b"\x1a", after="stopped", then=signal.SIGUSR1)

    assert "stopped 148" in screen
    assert "1\r\n" in screen
    assert "code 5" in screen


def in_terminal(work: Workplace, argv: list[str], *, keys: bytes, after: str = "", then: signal.Signals | None = None) -> str:
    """Run a command in a terminal of its own, press keys once it is ready, and return all that came on the screen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work.folder)
        os.environ.update(work.environment(TERM="dumb"))
        shell = "import subprocess, sys; print('code', subprocess.run(sys.argv[1:]).returncode)"
        # The terminal's leader must outlive the keys.
        os.execv(sys.executable, [sys.executable, "-c", f"import signal; signal.signal(2, lambda *a: None); {shell}", *argv])
    screen, deadline = "", time.monotonic() + 60
    pressed = signalled = False
    while time.monotonic() < deadline:
        try:
            screen += os.read(terminal, 4096).decode()
        except OSError:
            break
        if "ready" in screen and not pressed:
            os.write(terminal, keys)
            pressed = True
        if then is not None and pressed and not signalled and after in screen:
            time.sleep(1.0)  # for `fg`; a signal that comes sooner is kept for the stopped script
            os.kill(script_of(pid), then)
            signalled = True
    os.waitpid(pid, 0)
    os.close(terminal)
    return screen


def script_of(pid: int) -> int:
    """The process of the tree that runs wait.py itself."""
    return next(found for found in reversed(list(processes.tree(pid))) if "wait.py" in processes.command_line(found)[1:2])
