"""Runs commands with and without `slowstep run`, and shows what differed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slowstep.document.validity import validate
from slowstep.record.system import processes
from slowstep.record.writing import format as contract

SLOWSTEP = (sys.executable, "-c", "from slowstep.cli.main import main; main()")
TIME_LIMIT_S = 200
MARK = "SLOWSTEP_TEST_MARK"

# Steps of about 5 ms, counted by the script itself with one write each: what a recording must not fall short of.
TRAINING = """\
import os, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.zeros(256, 8), torch.zeros(256, 1)), batch_size=4)
counter = os.open("steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def step(inputs, targets):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    time.sleep(0.004)
    optimizer.step()
    os.write(counter, b"x")

def train(steps):
    done = 0
    while True:
        for inputs, targets in loader:
            if done == steps:
                return
            step(inputs, targets)
            done += 1
"""


def on_small_disk(folder: Path, size: str, copy: Path, *words: str) -> tuple[str, ...]:
    """A command with a folder on a disk of that size, which nothing beside it sees; what it left there is copied at its end.

    Skips the test where no disk may be mounted.
    """
    folder.mkdir(exist_ok=True)
    mount = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o "size=$1" tmpfs "$2" || exit 99; shift 2; "$@"', "sh", size, str(folder))
    tried = subprocess.run([*mount, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no small disk can be mounted here: {tried.stderr.strip()}")
    keep = 'folder="$1" copy="$2"; shift 2; "$@"; code=$?; cp -r "$folder" "$copy"; exit $code'
    return (*mount, "sh", "-c", keep, "sh", str(folder), str(copy), *words)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A command that has ended: exit code, streams, and what it left in its folder."""

    code: int
    out: str
    err: str
    files: dict[str, str]


class Workplace:
    """A folder in which the same command is run with slowstep and without, from the same beginning."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.runs = folder / "runs"
        # Near the root: the sockets of a loader's workers lie in it, and their names are at most 107 characters long.
        self.temp = Path(tempfile.mkdtemp(prefix="w"))
        self.mark = uuid.uuid4().hex
        # What the environment of all runs has besides.
        self.variables: dict[str, str] = {}
        self.folder.mkdir()

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        """Put a file there for every run to find."""
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(mode)

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of all runs, with a folder for temporary files and a mark by which processes left behind are found."""
        return os.environ | {"TMPDIR": str(self.temp), MARK: self.mark} | self.variables | more

    def start(
        self, *words: str, options: tuple[str, ...] = (), slowstep: bool = True, act: str = "run", **popen: Any
    ) -> subprocess.Popen[str]:
        """Start a command, with `slowstep run` or another act, or without; standard streams are pipes unless told otherwise."""
        out = ("--out", str(self.runs)) if act != "analyze" else ()
        own = (*SLOWSTEP, act, *out, *options) if slowstep else ()
        if not slowstep and (words[0].endswith(".py") or words[0] == "-m"):
            own = (sys.executable,)
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
        settings.setdefault("env", self.environment())
        return subprocess.Popen([*own, *words], cwd=self.folder, text=True, **settings)

    def finish(self, process: subprocess.Popen[str], limit_s: float = TIME_LIMIT_S) -> Ended:
        """Wait for it within a limit; nothing of it may be left after that."""
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            self.kill_left()
            raise
        return Ended(code=process.returncode, out=out or "", err=err or "", files=self.files())

    def run(self, *words: str, limit_s: float = TIME_LIMIT_S, **settings: Any) -> Ended:
        """Start and finish."""
        return self.finish(self.start(*words, **settings), limit_s)

    def report(self, *words: str) -> dict[str, Any]:
        """The report of one run."""
        target = self.runs.parent / "report.json"
        ended = self.run(*words, options=("--json", str(target)))
        assert ended.code == 0, ended.err
        report: dict[str, Any] = json.loads(target.read_text())
        validate(report)
        return report

    def both(self, *words: str, **settings: Any) -> tuple[Ended, Ended]:
        """The same command without slowstep and with it, each in the folder as it was at first."""
        before = self.files()
        plain = self.run(*words, slowstep=False, **settings)
        self._restore(before)
        return plain, self.run(*words, **settings)

    def files(self) -> dict[str, str]:
        """All files in the folder and among the temporary ones, with their content."""
        found = [path for top in (self.folder, self.temp) for path in sorted(top.rglob("*")) if path.is_file()]
        return {str(path): path.read_bytes().hex() for path in found if "__pycache__" not in path.parts}

    def recording(self) -> Path:
        """The one recording."""
        (folder,) = [path for path in self.runs.iterdir() if path.name != ".gitignore"]
        return folder

    def launcher_notes(self, kind: str) -> list[dict[str, Any]]:
        """The launcher's lines of a kind in the one recording."""
        lines = (self.recording() / "launcher.jsonl").read_text().splitlines()
        return [note for note in map(json.loads, lines) if note["kind"] == kind]

    def updates(self) -> int:
        """Updates in the one recording, of all processes."""
        return sum(count_records(path, contract.UPDATE) for path in self.recording().glob("*.rec") if path.stem != "launcher")

    def left(self, patience_s: float = 10.0) -> list[int]:
        """Processes of any run that are still there after a moment."""
        deadline = time.monotonic() + patience_s
        while (pids := processes.living_with(MARK, self.mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return pids

    def kill_left(self) -> None:
        """End whatever is left of any run."""
        for pid in processes.living_with(MARK, self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def close(self) -> None:
        """End what is left, and remove what is not in the test's own folder."""
        self.kill_left()
        shutil.rmtree(self.temp, ignore_errors=True)

    def _restore(self, files: dict[str, str]) -> None:
        for name in self.files().keys() - files.keys():
            os.unlink(name)
        for name, content in files.items():
            Path(name).write_bytes(bytes.fromhex(content))


def count_records(path: Path, kind: int) -> int:
    """Whole records of a kind in a file."""
    data = path.read_bytes()
    whole = len(data) - len(data) % contract.RECORD_BYTES
    return sum(record[-1] == kind for record in contract.RECORD.iter_unpack(data[:whole]))


def assert_same(plain: Ended, recorded: Ended) -> None:
    """The user sees with slowstep what they see without; our own words come last, on standard error."""
    assert recorded.code == plain.code
    assert recorded.out == plain.out
    assert recorded.err.startswith(plain.err)
    assert recorded.files == plain.files
