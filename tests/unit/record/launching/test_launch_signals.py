from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")

# In a process of its own: signals are a matter of the whole process.
RECEIVER = """
    import signal, sys
    from slowstep.record.launching.signals import Inbox
    with Inbox() as inbox:
        print("ready", flush=True)
        for _ in range(int(sys.argv[1])):
            received = inbox.receive(20.0)
            while received is not None and received.number == signal.SIGCHLD:
                received = inbox.receive(20.0)
            print(signal.Signals(received.number).name, received.for_all, flush=True)
    print("mask", signal.pthread_sigmask(signal.SIG_BLOCK, []) == set())
"""


def start(count: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RECEIVER), str(count)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_signal_to_slowstep_alone_is_told_from_one_to_the_group() -> None:
    with start(3) as process:
        lines = []
        for send in (os.kill, os.killpg, os.kill):
            send(process.pid, signal.SIGTERM)
            lines.append(process.stdout.readline())  # type: ignore[union-attr]

        assert lines == ["SIGTERM False\n", "SIGTERM True\n", "SIGTERM False\n"]
        # What came with the line before is in the stream's own buffer, past which communicate() would read.
        assert process.stdout.read() == "mask True\n"  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2])
def test_every_signal_that_is_passed_on_is_received(number: signal.Signals) -> None:
    with start(1) as process:
        os.kill(process.pid, number)

        assert process.communicate(timeout=20)[0] == f"{number.name} False\nmask True\n"


def test_the_probe_ends_when_slowstep_is_killed() -> None:
    with start(1) as process:
        (probe,) = [int(pid) for pid in open_text(f"/proc/{process.pid}/task/{process.pid}/children").split()]
        process.kill()
        process.communicate(timeout=20)

        # Adopted by another process: only its end can be waited for.
        handle = os.pidfd_open(probe) if os.path.exists(f"/proc/{probe}") else None
        if handle is not None:
            assert select.select([handle], [], [], 20)[0]
            os.close(handle)


def open_text(path: str) -> str:
    with open(path) as file:
        return file.read()
