"""A script in a sandbox may do what it wants: the user's files are as before, and nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowstep
from few import few
from sandboxed import MARK, SAY, Place, looks_of, mounts, skip_where_forbidden, wait, wait_for
from slowstep.errors import CommandNotStarted, NoSandbox
from slowstep.prove.sandbox import landlock
from slowstep.prove.sandbox.copied import open_copy
from slowstep.prove.sandbox.sandbox import Sandbox, open_sandbox
from slowstep.record.launching.command import resolve_command
from slowstep.record.launching.folder import create_folder
from slowstep.record.system import processes
from slowstep.record.writing.format import ENV_UNPROTECTED

KINDS = ("overlay", "copy")


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The folder for slowstep's own temporary files, with a short path."""
    folder = tempfile.mkdtemp(prefix="test-")
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("TMPDIR", folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(ours: str) -> Iterator[Place]:
    """The user's folders; afterwards no process, mount or temporary file may be left."""
    before = mounts()
    # Short as well: loaders have sockets in the temporary folder, and no more than 107 characters name a socket.
    top = tempfile.mkdtemp(prefix="their-", dir=Path(ours).parent)
    place = Place(Path(top))
    yield place
    left = place.processes()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert mounts() == before
    assert os.listdir(ours) == []
    assert not (place.folder / "scratch").exists()
    shutil.rmtree(top)


CHANGES = """\
import os, pathlib, shutil, sqlite3, subprocess
import torch
from safetensors.torch import save_file

torch.save({"weight": torch.ones(3)}, "model.pt")
save_file({"weight": torch.ones(3)}, "model.safetensors")
database = sqlite3.connect("runs.db")
database.execute("insert into runs values (2)")
database.commit()
database.close()
shutil.rmtree("checkpoints/step-1")
os.makedirs("checkpoints/step-1")
os.remove("checkpoints/best")
pathlib.Path("history.new").write_text("new")
os.replace("history.new", "history")
subprocess.run(["sh", "-c", "echo x > notes"], check=True)
with open("log", "a") as log:
    log.write("more")
os.truncate("large", 10)
os.chmod("config", 0o600)
os.utime("config", (0, 0))
shutil.move("folder", "moved")
os.symlink("log", "link")
"""
SHOWS = """\
import json, sys
print(json.dumps({
    "sql": sqlite3.connect("runs.db").execute("select count(*) from runs").fetchone()[0],
    "files": sorted(os.path.relpath(os.path.join(top, name)) for top, _, names in os.walk(".") for name in names if top != "./__pycache__"),
    "log": open("log").read(), "history": open("history").read(), "notes": open("notes").read(), "large": os.path.getsize("large"),
    "model": torch.load("model.pt")["weight"].tolist(),
}), flush=True)
"""


def fill(place: Place) -> None:
    import sqlite3

    for name in ("model.pt", "model.safetensors", "checkpoints/step-1/model.pt", "checkpoints/best", "history", "notes", "log", "config"):
        place.write(name, "old")
    place.write("folder/inner/file", "old")
    place.write("large", "old" * 1_000_000)
    with sqlite3.connect(place.cwd / "runs.db") as database:
        database.execute("create table runs (number)")
        database.execute("insert into runs values (1)")
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_of_the_working_folder_changes(place, kind):
    fill(place)
    place.write("train.py", CHANGES + SHOWS)
    before = place.looks()

    progress, ending = place.run(kind, "train.py")

    assert progress.exit_code == 0, ending.output
    shown = json.loads(ending.output.splitlines()[-1])
    assert (shown["sql"], shown["log"], shown["history"], shown["notes"], shown["large"]) == (2, "oldmore", "new", "x\n", 10)
    assert shown["model"] == [1.0, 1.0, 1.0]
    names = {"moved/inner/file", "link"}
    assert names <= set(shown["files"])
    assert {"folder/inner/file", "checkpoints/best", "checkpoints/step-1/model.pt"}.isdisjoint(shown["files"])
    assert place.looks() == before


ELSEWHERE = """\
import os, pathlib, tempfile
for folder in (os.environ["HOME"], os.environ["THEIR_TEMP"]):
    path = pathlib.Path(folder, "theirs")
    try:
        path.write_text("changed")
    except OSError as error:
        print(type(error).__name__)
    else:
        print(path.read_text())
"""


def test_an_overlay_holds_back_writes_wherever_they_go(place, monkeypatch):
    for folder in (place.home, place.temp):
        (folder / "theirs").write_text("old")
    monkeypatch.setenv("THEIR_TEMP", str(place.temp))
    place.write("train.py", ELSEWHERE)
    before = place.looks()

    progress, ending = place.run("overlay", "train.py")

    assert (progress.exit_code, ending.output) == (0, "changed\nchanged")
    assert place.looks() == before


def test_in_a_copy_writes_elsewhere_are_refused(place, monkeypatch):
    if not landlock.version():
        pytest.skip("this kernel has no Landlock")
    for folder in (place.home, place.temp):
        (folder / "theirs").write_text("old")
    monkeypatch.setenv("THEIR_TEMP", str(place.temp))
    place.write("train.py", ELSEWHERE)
    before = place.looks()

    progress, ending = place.run("copy", "train.py")

    assert (progress.exit_code, ending.output) == (0, "PermissionError\nPermissionError")
    assert place.looks() == before


@pytest.mark.slow
def test_from_a_copy_relative_paths_lead_where_they_led(place):
    (place.home / "data").write_text("data")
    place.cwd = place.cwd / "inner"
    place.write("train.py", "for name in ('link', '../../home/data', 'new/../../../home/data'):\n    print(open(name).read())")
    (place.cwd / "new").mkdir()
    (place.cwd / "link").symlink_to("../../home/data")
    before = place.looks()

    progress, ending = place.run("copy", "train.py")

    assert (progress.exit_code, ending.output) == (0, "data\ndata\ndata")
    assert place.looks() == before


@pytest.mark.slow
def test_a_copy_claims_no_more_than_contents(place):
    if not landlock.version():
        pytest.skip("this kernel has no Landlock")
    theirs = place.home / "theirs"
    theirs.write_text("old")
    refused = f"try:\n    open({str(theirs)!r}, 'w')\nexcept OSError:\n    pass\n"
    place.write("train.py", f"import os\nos.chmod({str(theirs)!r}, 0o600)\n{refused}")

    with place.open("copy") as sandbox:
        executor = place.executor(sandbox, "train.py")
        executor.start()
        wait(executor, lambda progress: not progress.alive)
        assert executor.end().exit_code == 0
        assert sandbox.claims == "no file's content changed"
        assert any("modes and times" in warning for warning in sandbox.warnings)

    assert theirs.read_text() == "old"


@pytest.mark.slow
def test_a_copy_that_cannot_hold_back_writes_elsewhere_does_not_claim_it(place):
    place.write("train.py", "open('inside', 'w').close()")
    before = place.looks()

    with Sandbox(open_copy(str(place.folder), str(place.cwd), hold_back=False)) as sandbox:
        executor = place.executor(sandbox, "train.py")
        executor.start()
        wait(executor, lambda progress: not progress.alive)
        assert executor.end().exit_code == 0
        assert sandbox.claims == f"no file changed in {place.cwd}"
        assert any("Only files in" in warning for warning in sandbox.warnings)

    assert place.looks() == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_paths_that_arguments_name_are_inside(place, kind):
    if kind == "copy" and not landlock.version():
        pytest.skip("this kernel has no Landlock")
    (place.temp / "data").write_text("data")
    place.write("config", "old")
    place.write("train.py", "import sys\nprint(open(sys.argv[1]).read())\nopen(sys.argv[2][6:], 'w').write('out')\nopen(sys.argv[3], 'w')")
    before = place.looks()

    progress, ending = place.run(kind, "train.py", str(place.temp / "data"), f"--out={place.home / 'new'}", str(place.cwd / "config"))

    assert (progress.exit_code, ending.output) == (0, "data")
    assert place.looks() == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_recording_may_lie_in_the_working_folder(place, kind):
    place.folder = Path(create_folder(parent=str(place.cwd / "slowstep_runs"), stem="train"))
    place.write("train.py", SAY + "say(sorted(os.listdir()))")
    before = looks_of(place.cwd)

    progress, ending = place.run(kind, "train.py")

    assert progress.exit_code == 0, ending.output
    assert place.said() == [str(["train.py"] if kind == "copy" else ["slowstep_runs", "train.py"])]
    changed = {path for path, looks in looks_of(place.cwd).items() if before.get(path) != looks}
    assert all(Path(path).is_relative_to(place.folder) for path in changed)


def test_what_is_asked_for_runs_in_place(place):
    place.write("train.py", "open('new', 'w').close()")

    progress, _ = place.run("none", "train.py")

    assert progress.exit_code == 0
    assert (place.cwd / "new").exists()


def told_to_levers(sandbox: Sandbox) -> str | None:
    """What a script in it says to levers of the files that it writes."""
    with sandbox:
        return sandbox.wrap(resolve_command((sys.executable,), os.environ), {})[1].get(ENV_UNPROTECTED)


@pytest.mark.parametrize(("kind", "told"), [("overlay", None), ("none", "1")])
def test_levers_are_told_where_writes_are_not_held_back(place, kind, told):
    assert told_to_levers(place.open(kind)) == told


@pytest.mark.parametrize(("hold_back", "told"), few([(True, None), (False, "1")], every=2))
def test_levers_are_told_of_a_copy_that_does_not_hold_back_all_writes(place, hold_back, told):
    if hold_back and not landlock.version():
        pytest.skip("this kernel has no Landlock")
    assert told_to_levers(Sandbox(open_copy(str(place.folder), str(place.cwd), hold_back=hold_back))) == told


def test_where_no_sandbox_is_possible_it_is_said_what_would_be_risked(place):
    with pytest.raises(NoSandbox, match=r"--allow-writes it runs in .*overwrites and deletes"):
        open_sandbox(place.folder, place.cwd, allow_writes=False, kind="none")


def test_where_one_kind_was_asked_for_the_way_out_is_another(place):
    with (place.cwd / "large").open("wb") as file:
        file.truncate(2_200_000_000)

    with pytest.raises(NoSandbox, match="Only --sandbox copy was allowed: leave that out") as refused:
        open_sandbox(place.folder, place.cwd, allow_writes=True, kind="copy")
    assert "With --allow-writes" not in str(refused.value)


def test_a_folder_that_is_too_large_is_not_copied(place):
    place.write("large", "x" * 3_000)

    with pytest.raises(Exception, match="too large to be copied"):
        open_copy(str(place.folder), str(place.cwd), limit_bytes=2_000)


@pytest.mark.slow
def test_trackers_are_told_to_stay_offline(place, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    names = ("WANDB_MODE", "HF_HUB_OFFLINE", "MLFLOW_TRACKING_URI")
    place.write(
        "train.py",
        f"import os\nprint(*(os.environ[name] for name in {names}))\npath = os.environ['{names[2]}'][7:]\nos.mkdir(path)\n"
        "print(os.listdir(os.path.dirname(path)))",
    )

    progress, ending = place.run("overlay", "train.py")

    assert progress.exit_code == 0, ending.output
    # Of the scratch only that is seen which is meant for the script.
    assert ending.output == f"offline 1 file://{place.folder}/scratch/mlruns\n['mlruns']"


@pytest.mark.slow
def test_devices_and_shared_memory_are_there(place):
    theirs, left = (Path(f"/dev/shm/slowstep-{name}-{os.getpid()}") for name in ("theirs", "left"))
    theirs.write_text("theirs")
    place.write(
        "train.py",
        """\
import os, sys
from multiprocessing import shared_memory
theirs, left, devices = sys.argv[1:]
block = shared_memory.SharedMemory(os.path.basename(left), create=True, size=1000)
print(sorted(os.listdir("/dev")) == sorted(devices.split()), open(theirs).read(), os.path.exists(left), flush=True)
try:
    open(theirs, "w")
except OSError as error:
    print(error.strerror, flush=True)
os._exit(0)
""",
    )

    try:
        progress, ending = place.run("overlay", "train.py", str(theirs), str(left), " ".join(os.listdir("/dev")))
        assert (progress.exit_code, ending.output) == (0, "True theirs True\nRead-only file system")
        assert theirs.read_text() == "theirs"
        assert not left.exists()
    finally:
        theirs.unlink()
        left.unlink(missing_ok=True)


@pytest.mark.slow
def test_sockets_of_others_answer(place):
    path = str(place.temp / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        answering = threading.Thread(target=answer, args=(server,), daemon=True)
        answering.start()
        place.write(
            "train.py", "import socket, sys\nwith socket.socket(1) as s:\n    s.connect(sys.argv[1])\n    print(s.recv(9).decode())"
        )
        _, ending = place.run("overlay", "train.py", path)
        assert ending.output == "hello"
        answering.join(10)


def answer(server: socket.socket) -> None:
    with server.accept()[0] as asker:
        asker.sendall(b"hello")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_writing_is_measured_both_ways(place, kind):
    with place.open(kind) as sandbox:
        assert sandbox.write_ratio is not None
        assert 0.01 < sandbox.write_ratio < 100


@pytest.mark.slow
def test_a_command_that_is_gone_is_not_found(place):
    with place.open("overlay") as sandbox:
        executor = place.executor(sandbox)
        executor._command = type(executor._command)(words=("gone",), path="/gone", argv=("gone",), stem="gone")
        with pytest.raises(CommandNotStarted, match="'/gone' cannot be executed") as caught:
            executor.start()

    assert caught.value.exit_code == 127


def test_a_script_that_crashes_shows_why(place):
    place.write("train.py", "raise RuntimeError('no data')")

    progress, ending = place.run("overlay", "train.py")

    assert (progress.alive, progress.exit_code, ending.killed) == (False, 1, False)
    assert ending.output.endswith("RuntimeError: no data")


UNRULY = (
    SAY
    + """\
import signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: say("cleaned up"))
say(os.getpid())
subprocess.Popen(["sleep", "1000"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        say(os.getpid())
        # Not even its environment tells whose it is.
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
while True:
    if os.fork() == 0:
        time.sleep(0.05)
        os._exit(0)
    time.sleep(0.01)
    os.waitpid(-1, os.WNOHANG)
"""
)


def is_gone(pid: str) -> bool:
    # One that nobody has collected yet runs no more.
    stat = processes.read_stat(int(pid))
    return stat is None or stat.ended


@pytest.mark.parametrize("kind", few([*KINDS, "none"], every=3))
def test_all_that_a_script_starts_is_gone_at_the_end(place, kind):
    place.write("train.py", UNRULY)

    with place.open(kind) as sandbox:
        executor = place.executor(sandbox, "train.py")
        executor.start()
        assert wait_for(lambda: len(place.said()) == 2)
        assert executor.poll().alive
        ending = executor.end()
        assert executor.end() is ending

    assert (ending.exit_code, ending.killed, ending.left) == (None, True, ())
    assert all(map(is_gone, place.said()))
    assert sandbox.close() == ()


@pytest.mark.slow
def test_a_script_that_daemonizes_has_ended_and_its_daemon_is_ended(place):
    place.write("train.py", UNRULY.split("while True")[0] + "os._exit(3)\n")

    progress, ending = place.run("overlay", "train.py")

    assert (progress.exit_code, ending.exit_code, ending.left) == (3, 3, ())
    assert wait_for(lambda: place.processes() == [])
    assert is_gone(place.said()[-1])


@pytest.mark.slow
def test_a_script_that_fills_the_scratch_is_ended(place):
    place.write("train.py", "while True:\n    open('large', 'ab').write(bytes(1 << 20))\n    __import__('time').sleep(0.01)")
    before = place.looks()

    progress, ending = place.run("overlay", "train.py", room_bytes=20_000_000)

    assert "more than half of what the disk had free" in progress.problem
    assert (ending.killed, ending.problem) == (True, progress.problem)
    assert place.looks() == before


@pytest.mark.slow
def test_a_time_limit_ends_everything(place):
    place.write("train.py", UNRULY)

    progress, ending = place.run("overlay", "train.py", limit_s=1.0)

    assert progress.problem == "the time limit of the whole experiment is over"
    assert (ending.killed, ending.left) == (True, ())


@pytest.mark.slow
def test_a_script_that_goes_elsewhere_changes_nothing_there(place):
    (place.home / "theirs").write_text("old")
    place.write("train.py", "import os, sys\nos.chdir(sys.argv[1])\nopen('theirs', 'w').write('changed')\nopen('new', 'w')")
    before = place.looks()

    progress, _ = place.run("overlay", "train.py", str(place.home))

    assert progress.exit_code == 0
    assert place.looks() == before


@pytest.mark.slow
def test_a_working_folder_that_vanishes_is_an_error_before_the_start(place):
    with place.open("overlay") as sandbox:
        shutil.rmtree(place.cwd)
        executor = place.executor(sandbox, "-c", "pass")
        with pytest.raises(CommandNotStarted, match=r"cannot be (started|entered)"):
            executor.start()


@pytest.mark.slow
def test_a_working_folder_that_vanishes_meanwhile_harms_nothing(place):
    place.write("train.py", SAY + "import time\nsay('here')\nwhile True:\n    time.sleep(0.01)")

    with place.open("overlay") as sandbox:
        executor = place.executor(sandbox, "train.py")
        executor.start()
        assert wait_for(place.said)
        shutil.rmtree(place.cwd)
        assert executor.poll().alive
        assert executor.end().left == ()


SLOWSTEP = """\
import os, sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from sandboxed import Place
place = Place.__new__(Place)
place.__dict__.update({{name: Path(value) for name, value in {folders!r}.items()}}, mark={mark!r})
sandbox = place.open({kind!r})
executor = place.executor(sandbox, "train.py")
executor.start()
print("started", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("kind", few(KINDS, every=2))
def test_a_killed_slowstep_leaves_no_training_behind(place, kind, ours):
    place.open(kind).close()
    place.write("train.py", UNRULY)
    folders = {name: str(getattr(place, name)) for name in ("cwd", "home", "temp", "runs", "folder")}
    paths = [str(Path(__file__).parents[1]), str(Path(slowstep.__path__[0]).parent)]
    code = SLOWSTEP.format(paths=paths, folders=folders, mark=place.mark, kind=kind)

    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as slow:
        assert slow.stdout.readline() == "started\n"
        assert wait_for(lambda: len(place.said()) == 2)
        slow.kill()

    assert wait_for(lambda: place.processes() == [] and not (place.folder / "scratch").exists())
    assert wait_for(lambda: all(map(is_gone, place.said())))
    assert wait_for(lambda: os.listdir(ours) == [])
    assert "cleaned up" not in place.said()


@pytest.mark.slow
def test_with_a_killed_guard_the_training_ends(place):
    place.write("train.py", UNRULY)

    with place.open("overlay") as sandbox:
        executor = place.executor(sandbox, "train.py")
        executor.start()
        assert wait_for(lambda: len(place.said()) == 2)
        os.kill(executor._guarded._guard.pid, signal.SIGKILL)
        assert wait_for(lambda: is_gone(place.said()[0]))
        progress = wait(executor, lambda progress: not progress.alive)
        ending = executor.end()

    assert progress.problem == "the process that watches over the script is gone, and the script with it"
    assert ending.left == ()
    # Nobody is left who could know of it: it has neither a parent nor an environment.
    os.kill(int(place.said()[1]), signal.SIGKILL)


UNPRIVILEGED = """\
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from slowstep.prove.sandbox.guarded import Guarded
from slowstep.prove.sandbox.sandbox import open_sandbox
from slowstep.record.launching.command import resolve_command
folder, cwd = Path(sys.argv[2]), Path(sys.argv[3])
with open_sandbox(folder, cwd, allow_writes=False, kind=sys.argv[4]) as sandbox:
    command = resolve_command((sys.executable, *sys.argv[5:]), os.environ)
    argv, environ, inside = sandbox.wrap(command, os.environ)
    guarded = Guarded(argv, environ, inside, output=folder / "output", variable=("NONE", "1"), places=sandbox.places, limit_s=30)
    guarded.start()
    while guarded.exit_code is None and guarded.problem is None:
        guarded.listen()
        time.sleep(0.02)
    code, left = guarded.end()
print(json.dumps([sandbox.kind, code, left, (folder / "output").read_text(), sandbox.close()]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_users_without_rights_have_sandboxes_too(tmp_path, kind):
    python = next((path for path in (sys.executable, "/usr/bin/python3") if can_nobody_run(path)), None)
    if python is None:
        pytest.skip("not root, or no Python that nobody may run")
    top = Path("/tmp") / f"test-{os.getpid()}-{kind}"
    work, folder, package = top / "work", top / "runs", top / "package"
    try:
        for path in (top, work, folder):
            path.mkdir()
            os.chown(path, 65534, 65534)
        shutil.copytree(slowstep.__path__[0], package / "slowstep", ignore=shutil.ignore_patterns("__pycache__"))
        (work / "file").write_text("old")
        (work / "folder").mkdir()
        (work / "folder" / "file").write_text("old")
        for path in (work / "file", work / "folder", work / "folder" / "file"):
            os.chown(path, 65534, 65534)
        (work / "train.py").write_text(
            "import os, shutil\nopen('file', 'a').write('new')\nshutil.rmtree('folder')\nos.mkdir('folder')\n"
            "print(open('file').read(), os.listdir('folder'), os.getuid())"
        )
        before = looks_of(work)
        words = [python, "-c", UNPRIVILEGED, package, folder, work, kind, "train.py"]
        ended = subprocess.run(
            words, cwd=work, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False, timeout=60
        )
        if "NoSandbox" in ended.stderr:
            skip_where_forbidden(ended.stderr.splitlines()[-1])
        assert json.loads(ended.stdout) == [kind, 0, [], "oldnew [] 65534\n", []], ended.stderr
        assert looks_of(work) == before
        assert sorted(os.listdir(folder)) == ["output"]
    finally:
        shutil.rmtree(top)


def can_nobody_run(python: str) -> bool:
    if os.getuid() != 0:
        return False
    try:
        code = "import sys; sys.exit(sys.version_info < (3, 11))"
        return not subprocess.run([python, "-I", "-c", code], user=65534, group=65534, extra_groups=[], check=False).returncode
    except OSError:
        return False


IN_A_CONTAINER = """\
import sys
sys.path.insert(0, sys.argv[1])
import os, subprocess
from pathlib import Path
from slowstep.prove.sandbox.guarded import Guarded
from slowstep.prove.sandbox.sandbox import open_sandbox
from slowstep.record.launching.command import resolve_command
folder = Path("recording")
folder.mkdir()
with open_sandbox(folder, Path.cwd(), allow_writes=False, kind="overlay") as sandbox:
    command = resolve_command((sys.executable, "-c", "open('file', 'w').write('new'); print(open('file').read())"), os.environ)
    argv, environ, cwd = sandbox.wrap(command, os.environ)
    guarded = Guarded(argv, environ, cwd, output=folder / "output", variable=("NONE", "1"), places=sandbox.places, limit_s=30)
    guarded.start()
    while guarded.exit_code is None and guarded.problem is None:
        guarded.listen()
    guarded.end()
print("memory" in sandbox.warnings[0], (folder / "output").read_text().strip(), open("file").read())
"""


@pytest.mark.slow
def test_where_all_is_an_overlay_already_memory_takes_the_writes(place):
    place.write("file", "old")
    place.write("train.py", IN_A_CONTAINER)

    _, ending = place.run("overlay", "train.py", str(Path(slowstep.__path__[0]).parent))

    skip_where_forbidden(ending.output)
    assert ending.output == "True new old", ending.output


WAITS = """\
import time
say("ready")
while not os.path.exists(os.environ["SLOWSTEP_RECORDING"] + "/go"):
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_another_s_socket_may_go_between_a_sandbox_and_one_within_it(place):
    path = place.temp / "socket"
    place.write("file", "old")
    place.write("train.py", SAY + WAITS + IN_A_CONTAINER)

    with socket.socket(socket.AF_UNIX) as server, place.open("overlay") as sandbox:
        server.bind(str(path))
        server.listen(1)
        executor = place.executor(sandbox, "train.py", str(Path(slowstep.__path__[0]).parent))
        executor.start()
        assert wait_for(place.said)
        path.unlink()
        (place.folder / "go").touch()
        wait(executor, lambda progress: not progress.alive)
        ending = executor.end()

    skip_where_forbidden(ending.output)
    assert ending.output == "True new old", ending.output


LOADER = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    data = TensorDataset(torch.arange(4096.0).reshape(64, 64))
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    loader = DataLoader(data, batch_size=8, num_workers=2, persistent_workers=True)
    while True:
        for batch, in loader:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
            torch.save(model.state_dict(), "model.pt")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_with_workers_walks_a_plan_in_a_sandbox(place, kind):
    from slowstep.prove.stats.plan import Arm, Plan
    from slowstep.record.experiment.lever import LeverSpec
    from slowstep.record.writing import format as contract

    place.write("train.py", LOADER)
    place.write("model.pt", "old")
    before = place.looks()
    plan = Plan(
        seed=0,
        steps=3,
        arms=(Arm(name="as-is"), Arm(name="A/A"), Arm(name="mock", levers=(LeverSpec(name="mock-loader"),))),
        blocks=(0, 1, 2) * 2,
    )

    with place.open(kind) as sandbox:
        executor = place.executor(sandbox, "train.py")
        executor.start()
        assert len(executor.steps().ns) == 0
        wait(executor, lambda progress: progress.updates >= 10)
        executor.post(plan)
        progress = wait(executor, lambda progress: progress.plan == contract.PLAN_DONE)
        steps, notes = executor.steps(), executor.lever_notes()
        ending = executor.end()

    assert progress.training_s > 0
    assert ending.killed
    assert ending.left == ()
    counted = steps.block[~steps.settling]
    assert {int(block): int((counted == block).sum()) for block in set(counted.tolist()) - {-1}} == dict.fromkeys(range(6), 3)
    # Its effect is noted after each of its blocks.
    assert [note["state"] for note in notes if note["arm"] == 2] == ["ready", "effect", "effect", "effect"]
    assert place.looks() == before
    launcher = [json.loads(line) for line in (place.folder / "launcher.jsonl").read_text().splitlines()]
    assert [note["kind"] for note in launcher if note["kind"] in ("run", "experiment", "exit")] == ["run", "experiment", "exit"]
    assert MARK not in json.dumps(launcher)
