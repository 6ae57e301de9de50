"""Makes folders to record into, runs scripts in them, and reads back what the recorder wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from slowstep.record.writing import format as contract

TIME_LIMIT_S = 120
# The kinds of records, which stand in the format one after the other, the launcher's readings last.
_DEFINED = list(vars(contract))
NAMES = {getattr(contract, name): name for name in _DEFINED[_DEFINED.index("WAIT") : _DEFINED.index("PRESSURES")]}


class Record(NamedTuple):
    t0: int
    t1: int
    a: int
    b: int
    c: int
    thread: int
    flags: int
    extra: int
    kind: str


def make_folder(path: Path) -> str:
    """A recording's folder as the launcher makes it."""
    path.mkdir()
    (path / contract.CONTROL_FILE).write_bytes(b"\1" + bytes(contract.CONTROL_BYTES - 1))
    (path / "launcher.jsonl").touch()
    return str(path)


def read_records(path: Path) -> list[Record]:
    """The finished records of a file, in the order in which they stand there; a whole step's in the order in which they ended."""
    data = path.read_bytes()
    whole = range(0, len(data) // contract.RECORD_BYTES * contract.RECORD_BYTES, contract.RECORD_BYTES)
    found = (_record(data[at : at + contract.RECORD_BYTES]) for at in whole if data[at + contract.RECORD_BYTES - 1])
    return [record for records in found for record in records]


def _record(data: bytes) -> tuple[Record, ...]:
    if data[-1] != contract.STEP:
        *fields, kind = contract.RECORD.unpack(data)
        return (Record(*fields, NAMES[kind]),)
    t0, t1, waited, later, took, to_update, batch, iterator, thread, samples, optimizer, _ = contract.STEP_RECORD.unpack(data)
    return (
        Record(t0, t0 + waited, iterator, batch, samples, thread, 0, contract.READY_UNKNOWN, "WAIT"),
        Record(t0 + later, t0 + later + took, 0, 0, 0, thread, 0, 0, "BACKWARD"),
        Record(t0 + to_update, t1, optimizer, 0, 0, thread, 0, 0, "UPDATE"),
    )


@dataclass(frozen=True)
class Process:
    """What one process left in a recording."""

    stem: Path

    @property
    def records(self) -> list[Record]:
        path = self.stem.with_suffix(".rec")
        return read_records(path) if path.exists() else []

    @property
    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stem.with_suffix(".jsonl").read_text().splitlines() if line]

    def of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record.kind == kind]

    def noted(self, kind: str) -> list[dict[str, Any]]:
        return [note for note in self.notes if note["kind"] == kind]

    @property
    def role(self) -> str:
        return str(self.noted("process")[0]["role"])

    @property
    def health(self) -> dict[str, int]:
        """Counts by name."""
        counts: dict[str, int] = {}
        for note in self.noted("health"):
            counts[note["name"]] = counts.get(note["name"], 0) + note["count"]
        return counts

    @property
    def faults(self) -> dict[str, str]:
        """What is to be done about each, without what a busy machine causes: of a fault of ours this names the error and its place."""
        return {note["name"]: note["remedy"] for note in self.noted("health") if note["name"] != "late-stacks"}


def processes(folder: str | Path) -> list[Process]:
    """All recorded processes of a folder, in the order in which they began."""
    found = (Process(path.with_suffix("")) for path in Path(folder).glob("*-*.jsonl"))
    return sorted(found, key=lambda process: process.noted("process")[0]["started_ns"])


def only(folder: str | Path) -> Process:
    """The one process that was recorded."""
    (process,) = processes(folder)
    return process


@dataclass(frozen=True)
class Ran:
    """A script that was run: how it ended, and what was recorded."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def trainer(self) -> Process:
        (process,) = self.by_role("trainer")
        return process

    @property
    def workers(self) -> list[Process]:
        return list(self.by_role("worker"))

    def by_role(self, role: str) -> Iterator[Process]:
        return (process for process in processes(self.folder) if process.role == role)


class Server:
    """A process that has imported torch, and more modules if it is told to, and forks a child for each script: importing takes longer than
    all else that a test does.
    """

    def __init__(self, *modules: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLOWSTEP")}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(contract.__file__).parents[2])}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *modules], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, script: Path, variables: dict[str, str]) -> tuple[int, str, str]:
        """Run a script as `python script` would, in its own folder: exit code (minus the signal's number) and both streams."""
        out, err = script.with_suffix(".out"), script.with_suffix(".err")
        job = {"script": str(script), "out": str(out), "err": str(err), "variables": variables, "limit_s": TIME_LIMIT_S}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, out.read_text(), err.read_text()

    def close(self) -> None:
        """End the server."""
        self._process.communicate(timeout=TIME_LIMIT_S)


class Servers:
    """Servers by what they have imported beside torch, each started when it is first asked for."""

    def __init__(self) -> None:
        self._started: dict[tuple[str, ...], Server] = {}

    def having(self, *modules: str) -> Server:
        """The one that has imported these."""
        if modules not in self._started:
            self._started[modules] = Server(*modules)
        return self._started[modules]

    def close(self) -> None:
        """End all."""
        for server in self._started.values():
            server.close()


# The first update makes torch import half of itself, and its first multiplication crashes when several threads make it at once.
# SIGALRM ends a script that hangs, whatever it does. What torch takes apart as a process ends, and reading slowstep's files, would be a
# third of most scripts.
_SERVER = """
import atexit, gc, importlib, json, os, runpy, signal, sys, threading, weakref
from importlib.machinery import SourceFileLoader
from pathlib import Path
import slowstep, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.zero_grad()
model(torch.ones(4, 8)).mean().backward()
optimizer.step()
del model, optimizer
for module in sys.argv[1:]:
    importlib.import_module(module)
for each in list(weakref.finalize._registry):
    each.atexit = False
root, known, read = Path(slowstep.__path__[0]), {}, SourceFileLoader.get_code
for path in (*root.glob("*.py"), *(path for room in ("record", "levers", "frameworks") for path in (root / room).rglob("*.py"))):
    known[str(path)] = read(SourceFileLoader("any", str(path)), "any")
SourceFileLoader.get_code = lambda loader, name: known.get(loader.path) or read(loader, name)
del sys.modules["slowstep"], slowstep
gc.freeze()
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    os._exit(0)
signal.alarm(job["limit_s"])
os.setsid()
for stream, path in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, stream)
    os.close(handle)
os.environ.update(job["variables"])
os.chdir(os.path.dirname(job["script"]))
sys.argv = [job["script"]]
code = 0
try:
    runpy.run_path(job["script"], run_name="__main__")
except SystemExit as leaving:
    code = leaving.code or 0
except BaseException:
    code = 1
    sys.excepthook(*sys.exc_info())
# As Python ends, but for taking all of torch apart, which takes longer than the script.
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
"""


def run_script(server: Server, place: Path, text: str, *, recorded: bool = True, name: str = "recording", **variables: str) -> Ran:
    """Run a script that begins with `import slowstep.auto`, with a recording around it or without."""
    script = place / "train.py"
    script.write_text(f"import slowstep.auto\n{text}")
    folder = place / name
    if recorded:
        variables = {contract.ENV_RECORDING: make_folder(folder)} | variables
    return Ran(*server.run(script, variables), folder)
