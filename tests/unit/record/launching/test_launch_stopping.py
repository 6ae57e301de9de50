from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from slowstep.record.launching.stopping import StopLimits, Stopper
from slowstep.record.system import processes

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")

OBEYS = "import time\nprint('up', flush=True)\ntime.sleep(60)"
DEAF_TO_INT = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"
DEAF = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(code: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        return child

    yield run
    for child in started:
        child.kill()
        child.wait(timeout=10)
        assert child.stdout is not None
        child.stdout.close()


def test_a_script_that_obeys_gets_one_signal(start: Start) -> None:
    child = start(OBEYS)
    stopper = Stopper(root=child.pid, limits=StopLimits())

    assert not stopper.advance(0.0)
    assert child.wait(timeout=20) == -2

    assert stopper.advance(0.1)
    assert stopper.sent == ["SIGINT"]


def test_sigterm_follows_when_its_time_has_come_and_not_before(start: Start) -> None:
    child = start(DEAF_TO_INT)
    stopper = Stopper(root=child.pid, limits=StopLimits(interrupt_s=10))

    assert not stopper.advance(0.0)
    assert not stopper.advance(9.9)
    assert stopper.sent == ["SIGINT"]
    assert not stopper.advance(10.0)

    assert child.wait(timeout=20) == -15
    assert stopper.advance(10.1)


def test_sigkill_is_the_last_word(start: Start) -> None:
    child = start(DEAF)
    stopper = Stopper(root=child.pid, limits=StopLimits(interrupt_s=10, terminate_s=5))

    for now_s in (0.0, 10.0, 14.9):
        assert not stopper.advance(now_s)
    assert stopper.sent == ["SIGINT", "SIGTERM"]
    assert not stopper.advance(15.0)

    assert child.wait(timeout=20) == -9
    assert stopper.sent == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_what_the_command_left_behind_is_ended_too(start: Start) -> None:
    child = start(f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {DEAF_TO_INT!r}])\nimport time\ntime.sleep(60)")
    stopper = Stopper(root=child.pid, limits=StopLimits(interrupt_s=10))

    assert not stopper.advance(0.0)
    assert child.wait(timeout=20) == -2
    assert not stopper.advance(1.0)
    assert not stopper.advance(10.0)

    while not stopper.advance(10.1):
        pass
    assert stopper.sent == ["SIGINT", "SIGTERM"]


def test_another_group_of_the_tree_gets_no_signal(start: Start) -> None:
    child = start(
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {OBEYS!r}], start_new_session=True)\ntime.sleep(60)"
    )
    (inner,) = processes.children(child.pid)
    stopper = Stopper(root=child.pid, limits=StopLimits())

    stopper.advance(0.0)

    assert child.wait(timeout=20) == -2
    assert stopper.advance(0.1)
    os.kill(inner, 9)  # raises if it is not there any more


def test_a_command_that_has_ended_is_left_alone(start: Start) -> None:
    child = start("print('up', flush=True)")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    stopper = Stopper(root=child.pid, limits=StopLimits())

    assert stopper.advance(0.0)
    assert stopper.sent == []
