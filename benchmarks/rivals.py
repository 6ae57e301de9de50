"""Other tools of this kind, each in a virtual environment of its own, made on demand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowstep-benchmarks"
TORCH = "torch==2.13.0"
WILD_REQUIREMENTS = Path(__file__).resolve().parent / "wild" / "requirements.txt"
WILD = (
    TORCH,
    *("accelerate", "lightning", "pillow", "torchmetrics", "tqdm", "transformers"),
    *(line for line in WILD_REQUIREMENTS.read_text().splitlines() if not line.startswith(("#", "-r"))),
)
PACKAGES = {
    "traceml-ai": (TORCH, "traceml-ai"),
    "gpuprof": (TORCH, "gpuprof[host,torch]"),
    "xprof": ("xprof==2.24.2",),
    # Made before pandas 3.
    "traceinsight": ("traceinsight==0.6.1", "pandas<3"),
    # Beside what the trainings of the wild suite use.
    "wild-traceml-ai": (*WILD, "traceml-ai==0.5.0"),
    "wild-train-doctor": (*WILD, "train-doctor==0.2.0"),
    "wild-fournex": (*WILD, "fournex==0.3.1"),
    "wild-gpuprof": (*WILD, "gpuprof[host]==0.7.1"),
}
LIMIT_S = 1200


class NotInstalled(Exception):
    """The environment of a rival could not be made."""


def environment_of(name: str) -> Path:
    """The bin folder of a rival's environment, which is made if it is not there with these packages. Raises `NotInstalled`."""
    folder, wanted = CACHE / name, "\n".join(PACKAGES[name])
    complete = folder / "complete"
    if not complete.exists() or complete.read_text() != wanted:
        print(f"installing {name} into {folder} ...", flush=True)
        words = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "numpy", *PACKAGES[name]]
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=LIMIT_S, capture_output=True)
            subprocess.run(words, check=True, timeout=LIMIT_S, capture_output=True, text=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise NotInstalled(f"{name}: {getattr(error, 'stderr', None) or error}") from error
        complete.write_text(wanted)
    return folder / "bin"


def version_of(name: str, environment: str | None = None) -> str:
    """The version of a rival that was installed, in the environment of its name or in another one."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    words = [str(environment_of(environment or name) / "python"), "-c", code]
    return subprocess.run(words, check=True, timeout=60, capture_output=True, text=True).stdout.strip()


def command(name: str, script: Path, flags: list[str]) -> list[str]:
    """How a script is run under a rival, by its own first page."""
    bin_folder = environment_of(name)
    if name == "traceml-ai":
        return [str(bin_folder / "traceml"), "run", "--mode=summary", str(script), "--args", *flags]
    return [str(bin_folder / "python"), str(script), *flags]
