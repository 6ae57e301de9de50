"""Signals that end a command: clean-up runs, and the process ends by the signal all the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import pathlib, signal, sys, time
from slowstep.cli.terminated import cleaning_up

scratch = pathlib.Path(sys.argv[1])
try:
    with cleaning_up():
        try:
            scratch.mkdir()
            print("ready", flush=True)
            time.sleep(60)
        except Exception:
            pass
        finally:
            scratch.rmdir()
    time.sleep(60)
except BaseException as error:
    print("behind the block", type(error).__name__)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_left_is_removed_and_the_signal_ends_the_process(tmp_path: Path, number: signal.Signals) -> None:
    scratch = tmp_path / "scratch"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(scratch)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert scratch.exists()
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)

    assert (process.returncode, out) == (-number, "")
    assert not scratch.exists()


def test_who_ignores_hang_ups_goes_on_ignoring_them(tmp_path: Path) -> None:
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + SCRIPT
    process = subprocess.Popen([sys.executable, "-c", ignoring, str(tmp_path / "scratch")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)

    assert process.returncode == -signal.SIGTERM


def test_handlers_are_as_before_afterwards() -> None:
    from slowstep.cli.terminated import cleaning_up

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with cleaning_up():
        pass

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
