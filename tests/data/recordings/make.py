"""Make the recordings again: python tests/data/recordings/make.py [NAME...]

Each script in scripts/ runs under `slowstep run` with its problem and without it, and each in scripts/unpaired/ once, by the command that
stands in COMMANDS. What was recorded is packed, with the folders of the machine renamed; the report is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
UNPAIRED = SCRIPTS / "unpaired"
FORMS = ("problem", "fixed")
TWO_RANKS = ("run", "torchrun", "--standalone", "--nproc-per-node", "2", "two_ranks.py")
# By the name of the recording; what is not here is recorded by `slowstep run SCRIPT`.
COMMANDS = {
    **{f"gil_contention-{form}": ("run", "gil_contention.py", form) for form in FORMS},
    **{f"straggler_samples-{form}": ("run", "straggler_samples.py", form) for form in FORMS},
    "growing_step_time-problem": ("run", "growing_step_time.py", "problem"),
    "pipeline_restart-problem": ("run", "pipeline_restart.py"),
    "slow_pipeline-problem": ("run", "slow_pipeline.py"),
    "many_host_steps-problem": ("run", "many_host_steps.py"),
    "captured": ("run", "--capture", "31-32", "captured.py"),
    "proved": ("prove", "--levers", "workers=2", "--budget", "20s", "proved.py"),
    "two_ranks-alike": TWO_RANKS,
    "two_ranks-one_slow": (*TWO_RANKS, "one_slow"),
}
# The last commit whose recorder wrote format 1.
LAST_OF_FORMAT_1 = "a6b6feb7614e"
SPINS = "while True: pass"
PROJECT = "/home/user/project"


def main(names: list[str]) -> None:
    for script in sorted(SCRIPTS.glob("*.py")):
        for form in FORMS:
            made(names, f"{script.stem}-{form}", script, ("run", script.name, form))
    for script in sorted(UNPAIRED.glob("*.py")):
        of_script = [name for name in COMMANDS if name.partition("-")[0] == script.stem]
        for name in of_script or [script.stem]:
            made(names, name, script, COMMANDS.get(name, ("run", script.name)))


def made(names: list[str], name: str, script: Path, arguments: tuple[str, ...]) -> None:
    """Make one recording, if all are wanted or this one is by its own name or by its script's."""
    if names and not {name, script.stem} & set(names):
        return
    with tempfile.TemporaryDirectory() as folder:
        size = record(Path(folder), script, name, arguments)
    print(f"{name}: {size / 1024:.0f} KiB", flush=True)


def record(folder: Path, script: Path, name: str, arguments: tuple[str, ...]) -> int:
    """Run a script under slowstep with these arguments and pack its recording; returns the bytes packed."""
    shutil.copy(script, folder)
    old = old_slowstep(folder / "old", LAST_OF_FORMAT_1) if name == "format_1" else {}
    with busy_cores(name == "foreign_load-problem"):
        command = ["slowstep", *arguments]
        done = subprocess.run(command, cwd=folder, env=os.environ | old, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    (run,) = (folder / "slowstep_runs").glob("2*")
    for report in run.glob("report*.json"):
        report.unlink()
    for file in (*run.glob("*.jsonl"), *run.glob("*.json")):
        file.write_text(renamed(file.read_text(), folder))
    return packed(run, HERE / f"{name}.tar.xz")


def packed(run: Path, into: Path) -> int:
    """Pack a recording; returns the bytes packed."""
    with tarfile.open(into, "w:xz", preset=9) as archive:
        for file in sorted(run.iterdir()):
            archive.add(file, file.name, filter=anonymous)
    return into.stat().st_size


def old_slowstep(folder: Path, commit: str) -> dict[str, str]:
    """What the environment needs in order that slowstep is the one of a commit."""
    folder.mkdir()
    source = subprocess.run(["git", "archive", commit, "src"], cwd=HERE.parents[2], capture_output=True, check=True).stdout
    subprocess.run(["tar", "x"], cwd=folder, input=source, check=True)
    return {"PYTHONPATH": str(folder / "src")}


def renamed(text: str, folder: Path) -> str:
    """Notes without the names of this machine's folders."""
    names = {
        str(folder.resolve()): PROJECT,
        str(folder): PROJECT,
        sys.prefix: f"{PROJECT}/.venv",
        str(HERE.parents[2]): "/home/user/slowstep",
        sys.base_prefix: "/usr",
        str(Path.home()): "/home/user",
        os.uname().nodename: "machine",
    }
    for name, new in names.items():
        text = text.replace(f'"{name}', f'"{new}')
    return text


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose file it was, and when, is nobody's business."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


@contextmanager
def busy_cores(wanted: bool) -> Iterator[None]:
    """With one process for each core that computes and does nothing else."""
    others = [subprocess.Popen([sys.executable, "-c", SPINS]) for _ in range((os.cpu_count() or 1) * wanted)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
