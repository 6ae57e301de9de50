"""Runs scripts in a sandbox by the live executor, and shows what became of the user's files and processes."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from slowstep.errors import NoSandbox
from slowstep.prove.executor import Ending, LiveExecutor, Progress
from slowstep.prove.sandbox.sandbox import Sandbox, open_sandbox
from slowstep.record.launching.command import resolve_command
from slowstep.record.launching.folder import create_folder
from slowstep.record.system import processes

TIME_LIMIT_S = 60.0
MARK = "SLOWSTEP_TEST_MARK"


def looks_of(top: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder, itself included: kind, mode, owner, time of last change, content."""
    found = {}
    for above, folders, names in os.walk(top):
        for path in (above, *(os.path.join(above, name) for name in (*folders, *names))):
            looks = os.lstat(path)
            found[path] = (looks.st_mode, looks.st_uid, looks.st_gid, looks.st_size, looks.st_mtime_ns, _content(path, looks.st_mode))
    return found


def _content(path: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return os.readlink(path)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""


class Place:
    """A user's working folder, home and temporary folder, and beside them a folder for recordings."""

    def __init__(self, top: Path) -> None:
        self.cwd, self.home, self.temp, self.runs = (top / name for name in ("work", "home", "temp", "runs"))
        for folder in (self.cwd, self.home, self.temp, self.runs):
            folder.mkdir()
        self.mark = uuid.uuid4().hex
        self.folder = Path(create_folder(parent=str(self.runs), stem="train"))

    def write(self, name: str, text: str) -> None:
        """Put a file into the working folder."""
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def looks(self) -> dict[str, tuple[object, ...]]:
        """All files of the user's, as they are now."""
        return looks_of(self.cwd) | looks_of(self.home) | looks_of(self.temp)

    def open(self, kind: str, *, room_bytes: int | None = None) -> Sandbox:
        """A sandbox of a kind, or the test is skipped: a container may allow no overlay."""
        try:
            return open_sandbox(self.folder, self.cwd, allow_writes=kind == "none", kind=kind, room_bytes=room_bytes)
        except NoSandbox as error:
            skip_where_forbidden(str(error))
            raise

    def executor(self, sandbox: Sandbox, *words: str, limit_s: float = TIME_LIMIT_S) -> LiveExecutor:
        """What would run Python in the working folder, with these words."""
        environ = os.environ | {"HOME": str(self.home), "TMPDIR": str(self.temp), MARK: self.mark, "OMP_NUM_THREADS": "1"}
        return LiveExecutor(resolve_command((sys.executable, *words), environ), self.folder, sandbox, environ, limit_s=limit_s)

    def run(self, kind: str, *words: str, room_bytes: int | None = None, limit_s: float = TIME_LIMIT_S) -> tuple[Progress, Ending]:
        """Run a command to its end."""
        with self.open(kind, room_bytes=room_bytes) as sandbox:
            executor = self.executor(sandbox, *words, limit_s=limit_s)
            executor.start()
            progress = wait(executor, lambda progress: not progress.alive)
            return progress, executor.end()

    def processes(self) -> list[int]:
        """Living processes that were started with this place's mark."""
        return processes.living_with(MARK, self.mark)

    def said(self) -> list[str]:
        """The lines that a script has put into the one file that can be seen outside."""
        path = self.folder / "said"
        return path.read_text().splitlines() if path.exists() else []


def skip_where_forbidden(reason: str) -> None:
    """Skip a test where the system forbids what it needs, as containers do; any other reason is a fault."""
    if any(words in reason for words in ("allows no mount namespace", "Operation not permitted", "Permission denied")):
        pytest.skip(reason)


# What a script says for the test to read: the recording's folder is the only one that is seen on both sides.
SAY = """\
import os
def say(*words):
    handle = os.open(os.environ["SLOWSTEP_RECORDING"] + "/said", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, (" ".join(map(str, words)) + "\\n").encode())
    os.close(handle)
"""


def wait(executor: LiveExecutor, until: Callable[[Progress], bool]) -> Progress:
    """Look at a training until something holds."""
    deadline_s = time.monotonic() + TIME_LIMIT_S
    while not until(progress := executor.poll()):
        assert time.monotonic() < deadline_s, progress
        time.sleep(0.02)
    return progress


def wait_for(what: Callable[[], object]) -> bool:
    """Whether something comes true within a while."""
    deadline_s = time.monotonic() + TIME_LIMIT_S / 2
    while not what():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


def mounts() -> list[str]:
    """The mounts of this process."""
    return Path("/proc/self/mountinfo").read_text().splitlines()
