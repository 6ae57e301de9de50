"""`slowstep.start()`, `stop()` and `with slowstep.record():` in a process that runs already: recorded, and left as it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from few import few
from recorded import Process, Ran, Server, processes, run_script

pytest.importorskip("torch")

# Everything that a recording changes in a process, as one comparable value. The diagnosis is another test's.
PARTS = """
import gc, os, sys, threading, time
import torch
import torch.utils.data._utils.fetch as fetch, torch.utils.data._utils.worker as worker, torch.utils.data.dataloader as dataloader
import torch.optim.optimizer as optim
from torch.utils.data import DataLoader, TensorDataset
import slowstep
import slowstep.workflow.sessions.session_report as session_report
from slowstep.errors import BadUsage, SlowstepError

session_report.diagnose_in_subprocess = lambda folder, warmup: {}
session_report.SessionReport.show = lambda self: print("shown", self.document)

def loader(workers=0, **options):
    return DataLoader(TensorDataset(torch.zeros(64, 8), torch.zeros(64, 1)), batch_size=4, num_workers=workers, **options)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step(inputs, targets):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()

def train(batches=None, steps=None):
    for number, batch in enumerate(loader() if batches is None else batches, 1):
        step(*batch)
        if number == steps:
            break

def patched():
    gc.collect()
    owners = [dataloader._BaseDataLoaderIter, DataLoader, torch.nn.Module, fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher]
    modules = [worker, torch.autograd, torch, torch.serialization]
    return {
        "attributes": [dict(vars(owner)) for owner in owners + modules],
        "hooks": [list(optim._global_optimizer_pre_hooks), list(optim._global_optimizer_post_hooks)],
        "meta_path": list(sys.meta_path), "excepthook": sys.excepthook, "environment": dict(os.environ),
        "threads": [thread.name for thread in threading.enumerate()], "profile": sys.getprofile(), "path": list(sys.path),
    }

def assert_put_back(before):
    # The sampler's thread sleeps for up to an eighth of a second, longer where the machine is busy.
    deadline = time.monotonic() + 20
    while (after := patched()) != before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert after == before, {key: (before[key], after[key]) for key in before if after[key] != before[key]}

def open_files():
    return sorted(os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))
"""

Run = Callable[..., Ran]


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Run:
    """Runs the lines of a main program behind PARTS, without any `slowstep run` around it."""

    def run(main: str, *, code: int = 0, **variables: str) -> Ran:
        body = "\n".join(f"    {line}" for line in main.strip().splitlines())
        ran = run_script(server, tmp_path, f"{PARTS}\nif __name__ == '__main__':\n{body}\n", recorded=False, **variables)
        assert ran.code == code, ran.err
        return ran

    return run


def recordings(place: Path) -> list[Path]:
    return sorted(path for path in (place / "slowstep_runs").iterdir() if path.is_dir())


def updates(processes: list[Process]) -> list[int]:
    return [len(process.of("UPDATE")) for process in processes]


@pytest.mark.parametrize("level", [1, pytest.param(0, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_nothing_of_ours_is_left_and_a_second_recording_works(run: Run, tmp_path: Path, level: int) -> None:
    ran = run(f"""
train()
before, files = patched(), open_files()
for _ in range(2):
    slowstep.start(level={level})
    assert patched() != before
    train()
    train(loader(1))
    slowstep.stop()
    assert_put_back(before)
train()
gc.collect()
assert open_files() == files, set(open_files()) ^ set(files)
""")

    assert ran.out == "shown {}\nshown {}\n"
    for folder in recordings(tmp_path):
        trainer, worker = processes(folder)
        assert (trainer.role, worker.role) == ("trainer", "worker")
        assert updates([trainer]) == [32]
        assert not (folder / "inject").exists()
        assert not (folder / "control").exists()
        assert trainer.health.keys() <= {"late-stacks"}


@pytest.mark.slow
def test_the_files_of_a_recording_are_closed_at_its_end_and_not_when_garbage_is_collected(run: Run) -> None:
    run("""
train()
gc.collect()
gc.disable()
files = open_files()
for _ in range(3):
    with slowstep.record():
        train()
        train(loader(1))
    # The sampler's thread closes what only it has open.
    deadline = time.monotonic() + 20
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert open_files() == files, set(open_files()) ^ set(files)
""")


def test_what_was_made_before_the_start_is_recorded(run: Run, tmp_path: Path) -> None:
    run("""
batches = iter(loader())
train(batches, 3)
slowstep.start()
train(batches, 3)
slowstep.stop()
train(batches, 3)
slowstep.start()
train(batches, 3)
slowstep.stop()
assert not [name for name in vars(batches) if "slowstep" in name]
train(batches)
""")

    trainers = [trainer for folder in recordings(tmp_path) for trainer in processes(folder)]
    assert [(len(trainer.of("WAIT")), len(trainer.of("UPDATE")), len(trainer.noted("iterator"))) for trainer in trainers] == [(3, 3, 1)] * 2


@pytest.mark.slow
def test_torch_may_be_imported_after_the_start(tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text("""
import sys
import slowstep
slowstep.start()
before = [finder for finder in sys.meta_path if type(finder).__module__ != "slowstep.record.imports"]
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
report = slowstep.stop()
assert sys.meta_path == before, sys.meta_path
print(report.document["run"]["recorded_steps"], "polars" in sys.modules, report.folder)
""")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["5", "False"]
    assert "UNDETERMINED" in done.stderr
    assert "recorded from within a script" in done.stderr
    report = json.loads((Path(done.stdout.split()[2]) / "report.json").read_text())
    assert report["run"]["startup_s"] is None
    assert report["run"]["duration_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.nightly), "forkserver"])
def test_workers_are_recorded_however_they_start(run: Run, tmp_path: Path, context: str) -> None:
    run(f"""
for _ in range(2):
    with slowstep.record():
        train(loader(1, multiprocessing_context={context!r}))
""")

    roles = [sorted(process.role for process in processes(folder)) for folder in recordings(tmp_path)]
    assert roles == [["trainer", "worker"]] * 2


@pytest.mark.parametrize("error", few(["ValueError('ours')", "KeyboardInterrupt", "SystemExit(3)"], every=3))
def test_an_exception_in_the_block_ends_the_recording_and_goes_on(run: Run, tmp_path: Path, error: str) -> None:
    ran = run(f"""
before = patched()
try:
    with slowstep.record() as recording:
        train()
        raise {error}
except BaseException as caught:
    print(type(caught).__name__, caught.__context__)
assert_put_back(before)
assert recording.report.document == {{}}
""")

    assert ran.out.splitlines() == ["shown {}", f"{error.partition('(')[0]} None"]
    assert updates(processes(recordings(tmp_path)[0])) == [16]


@pytest.mark.slow
def test_a_failing_data_set_shows_no_frame_of_ours(run: Run) -> None:
    ran = run(
        """
class Broken:
    def __len__(self): return 8
    def __getitem__(self, index): raise ValueError("mine")
with slowstep.record():
    train(DataLoader(Broken(), batch_size=4))
""",
        code=1,
    )

    assert "ValueError: mine" in ran.err


def test_start_twice_and_stop_without_start_say_what_to_do(run: Run) -> None:
    ran = run("""
for act in (slowstep.stop, slowstep.start, slowstep.start, slowstep.stop, slowstep.stop, lambda: slowstep.start(level=7)):
    try:
        act()
        print("fine")
    except SlowstepError as error:
        print(type(error).__name__, error)
""")

    assert ran.out.splitlines() == [
        "BadUsage No recording is under way in this process. Begin one: slowstep.start().",
        "fine",
        "BadUsage A recording is under way already. End it first: slowstep.stop().",
        "shown {}",
        "fine",
        "BadUsage No recording is under way in this process. Begin one: slowstep.start().",
        "BadUsage level=7 is not valid: 0 records steps and waits, 1 causes, 2 everything.",
    ]


def test_a_folder_that_cannot_be_written_is_said_and_leaves_nothing(run: Run) -> None:
    ran = run("""
before = patched()
try:
    slowstep.start(out="/proc/nowhere")
except SlowstepError as error:
    print(error)
assert_put_back(before)
slowstep.start(out="there")
slowstep.stop()
print(os.listdir("there") != [])
""")

    assert "slowstep.start(out=...)" in ran.out
    assert ran.out.endswith("True\n")


@pytest.mark.slow
def test_a_fork_has_a_recording_of_its_own_and_leaves_ours_alone(run: Run, tmp_path: Path) -> None:
    ran = run("""
with slowstep.record():
    train()
    pid = os.fork()
    if pid == 0:
        train()
        try:
            slowstep.stop()
        except BadUsage as error:
            os.write(1, b"the child has none\\n")
        sys.exit(0)
    os.waitpid(pid, 0)
    train()
""")

    assert "the child has none" in ran.out
    assert sorted(updates(processes(recordings(tmp_path)[0]))) == [16, 32]


@pytest.mark.parametrize("end", few(["os.kill(os.getpid(), 9)", "os._exit(7)"], every=2))
def test_a_killed_kernel_leaves_a_recording_that_can_be_read(run: Run, tmp_path: Path, end: str) -> None:
    from slowstep.workflow.diagnose_recordings import diagnose_recording

    run(f"slowstep.start()\nfor _ in range(4):\n    train()\n{end}", code=7 if "exit" in end else -signal.SIGKILL)

    report = diagnose_recording(recordings(tmp_path)[0])
    assert report["run"]["recorded_steps"] == 64
    assert report["run"]["name"] == "train"


def test_a_recording_that_is_still_on_at_the_end_is_kept_and_said(run: Run, tmp_path: Path) -> None:
    ran = run("slowstep.start()\ntrain()")

    assert "still on. It is kept: slowstep analyze slowstep_runs" in ran.err
    (folder,) = recordings(tmp_path)
    assert not (folder / "inject").exists()
    assert processes(folder)[0].noted("end")


@pytest.mark.parametrize("path", few(["/there:/elsewhere", None, ""], every=3))
def test_the_environment_is_put_back_exactly(run: Run, path: str | None) -> None:
    ran = run(f"""
os.environ.pop("PYTHONPATH", None)
if {path!r} is not None:
    os.environ["PYTHONPATH"] = {path!r}
before = dict(os.environ)
with slowstep.record():
    assert os.environ["PYTHONPATH"] != before.get("PYTHONPATH")
assert dict(os.environ) == before
with slowstep.record():
    os.environ["PYTHONPATH"] = "/new:" + os.environ["PYTHONPATH"]
    os.environ["MINE"] = "1"
print(os.environ["PYTHONPATH"], os.environ["MINE"])
""")

    assert ran.out.splitlines()[-1] == f"/new{':' + path if path else ''} 1"


@pytest.mark.parametrize("limit", few(["steps=10", "seconds=0.01"], every=2))
def test_a_limit_ends_the_recording_by_itself(run: Run, tmp_path: Path, limit: str) -> None:
    ran = run(f"""
before = patched()
slowstep.start({limit})
deadline = time.monotonic() + 30
while patched() != before and time.monotonic() < deadline:
    train()
assert_put_back(before)
train()
print(slowstep.stop().folder is not None)
""")

    assert ran.out.splitlines() == ["shown {}", "True"]
    (trainer,) = processes(recordings(tmp_path)[0])
    assert trainer.noted("end")[0]["reason"] == limit.partition("=")[0].replace("seconds", "time")
    assert len(trainer.of("UPDATE")) >= (10 if "steps" in limit else 1)


@pytest.mark.slow
def test_a_thread_that_trains_on_loses_its_hooks_too(run: Run, tmp_path: Path) -> None:
    run("""
before = patched()
errors, go_on = [], True
def work():
    try:
        while go_on:
            train()
    except BaseException as error:
        errors.append(error)
thread = threading.Thread(target=work)
thread.start()
for _ in range(5):
    slowstep.start()
    time.sleep(0.05)
    slowstep.stop()
time.sleep(0.2)
go_on = False
thread.join()
assert errors == []
assert_put_back(before)
""")

    assert len(processes(recordings(tmp_path)[0])[0].of("UPDATE")) > 0


def test_a_training_gives_the_same_numbers(run: Run) -> None:
    ran = run("""
def result():
    torch.manual_seed(1)
    net = torch.nn.Linear(8, 1)
    by = torch.optim.SGD(net.parameters(), lr=0.1)
    for inputs, _ in DataLoader(TensorDataset(torch.randn(64, 8), torch.zeros(64, 1)), batch_size=4, shuffle=True):
        by.zero_grad()
        net(inputs).square().mean().backward()
        by.step()
    return net.weight.tolist()
plain = result()
with slowstep.record(level=2):
    recorded = result()
print(recorded == plain == result())
""")

    assert ran.out.splitlines()[-1] == "True"


def test_disabled_it_records_nothing_and_says_so(run: Run, tmp_path: Path) -> None:
    ran = run(
        """
before = patched()
session_report.SessionReport.show = lambda self: print(self.message)
with slowstep.record() as recording:
    assert patched() == before
    train()
assert recording.folder is None
""",
        SLOWSTEP_DISABLE="1",
    )

    assert ran.out == "slowstep: nothing was recorded: SLOWSTEP_DISABLE is set.\n"
    assert not (tmp_path / "slowstep_runs").exists()


def test_inside_slowstep_run_the_outer_recording_stands(server: Server, tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in ["with slowstep.record():", "    train()", "train()"])
    ran = run_script(server, tmp_path, f"{PARTS}\nif __name__ == '__main__':\n{body}\n")

    assert (ran.code, ran.out) == (0, "shown None\n")
    assert updates([ran.trainer]) == [32]
    assert not (tmp_path / "slowstep_runs").exists()
