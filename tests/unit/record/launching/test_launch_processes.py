from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from slowstep.record.launching.witness import Witness
from slowstep.record.system import processes

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")

NESTED = "sleep 60 & sleep 60 & wait"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def run(*argv: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        # A session of its own, so that what it started can be ended with it.
        started.append(subprocess.Popen(argv, env=env, start_new_session=True))
        return started[-1]

    yield run
    for child in started:
        try:
            os.killpg(child.pid, 9)
        except ProcessLookupError:
            pass
        child.wait(timeout=10)


def eventually(look: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_name_with_spaces_and_parentheses_is_read_over() -> None:
    line = b"42 (a) b) R 7 5 5 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 999 1000 100 18446744073709551615 0 0\n"

    stat = processes.parse_stat(line)

    assert stat == processes.Stat(pid=42, parent=7, group=5, start=999, ended=False, cpu_ticks=100)


def test_a_process_that_does_not_exist_is_none() -> None:
    assert processes.read_stat(2**30) is None
    assert processes.children(2**30) == []
    assert processes.command_line(2**30) == []
    assert not processes.holds_variable(2**30, "PATH")


def test_a_tree_holds_children_of_children(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    child = start("sh", "-c", NESTED)

    assert eventually(lambda: len(list(processes.tree(child.pid))) == 3)
    assert next(processes.tree(child.pid)) == child.pid
    assert child.pid in processes.tree(os.getpid())


def test_an_ended_process_is_not_alive_even_before_it_is_waited_for(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    child = start("sleep", "60")
    stat = processes.read_stat(child.pid)
    assert stat is not None
    known = [(child.pid, stat.start)]
    assert processes.still_alive(known) == [child.pid]

    child.kill()

    assert eventually(lambda: processes.still_alive(known) == [])


def test_a_later_process_of_the_same_number_is_another(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    child = start("sleep", "60")

    assert processes.still_alive([(child.pid, 1)]) == []


def test_processes_are_found_by_the_environment_they_were_started_with(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    mine = start("sleep", "60", env=os.environ | {"SLOWSTEP_TEST": "a"})
    start("sleep", "60", env=os.environ | {"SLOWSTEP_TEST": "ab"})

    assert eventually(lambda: processes.living_with("SLOWSTEP_TEST", "a") == [mine.pid])


@pytest.mark.parametrize(
    ("options", "environ", "reason"),
    [
        ([], {"SLOWSTEP_RECORDING": "/x"}, None),
        (["-u"], {"SLOWSTEP_RECORDING": "/x"}, None),
        (["-uI"], {"SLOWSTEP_RECORDING": "/x"}, "started with -uI, which makes Python ignore PYTHONPATH"),
        (["-E"], {"SLOWSTEP_RECORDING": "/x"}, "started with -E, which makes Python ignore PYTHONPATH"),
        ([], {}, "started without the environment of the command"),
    ],
)
def test_a_python_that_cannot_be_reached_is_seen_with_the_reason(
    start: Callable[..., subprocess.Popen[bytes]], options: list[str], environ: dict[str, str], reason: str | None
) -> None:
    python = os.path.realpath(sys.executable)
    child = start(python, *options, "-c", "import time; time.sleep(60)", env=environ)
    witness = Witness(child.pid, (python, *options))

    assert eventually(lambda: processes.command_line(child.pid)[:1] == [python])
    witness.look(0.0)

    assert [seen.unreachable for seen in witness.seen] == [reason]


def test_secrets_of_seen_processes_are_hidden(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    child = start("sh", "-c", NESTED, "--api-key", "abc")
    witness = Witness(child.pid, ("sh",))

    def depths() -> list[int]:
        # One that is just becoming another command has no words.
        witness.look(time.monotonic())
        return [seen.depth for seen in witness.seen]

    assert eventually(lambda: depths() == [0, 1, 1])
    assert witness.seen[0].argv[-1] == "***"
