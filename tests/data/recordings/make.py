"""Make the recordings again: python tests/data/recordings/make.py [NAME...]

Each script in scripts/ runs under `slowstep run` with its problem and without it. What was recorded is packed, with the folders of the
machine renamed; the report is left out.
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
FORMS = ("problem", "fixed")
SPINS = "while True: pass"
PROJECT = "/home/user/project"


def main(names: list[str]) -> None:
    for script in sorted(SCRIPTS.glob("*.py")):
        if names and script.stem not in names:
            continue
        for form in FORMS:
            with tempfile.TemporaryDirectory() as folder:
                size = record(Path(folder), script, form)
            print(f"{script.stem} {form}: {size / 1024:.0f} KiB", flush=True)


def record(folder: Path, script: Path, form: str) -> int:
    """Run a script and pack its recording; returns the bytes packed."""
    shutil.copy(script, folder)
    with busy_cores(script.stem == "foreign_load" and form == "problem"):
        command = ["slowstep", "run", script.name, form]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    (run,) = (folder / "slowstep_runs").glob("2*")
    (run / "report.json").unlink()
    for notes in run.glob("*.jsonl"):
        notes.write_text(renamed(notes.read_text(), folder))
    packed = HERE / f"{script.stem}-{form}.tar.xz"
    with tarfile.open(packed, "w:xz", preset=9) as archive:
        for file in sorted(run.iterdir()):
            archive.add(file, file.name, filter=anonymous)
    return packed.stat().st_size


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
