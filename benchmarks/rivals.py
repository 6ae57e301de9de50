"""Other tools of this kind, each in a virtual environment of its own, made on demand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowstep-benchmarks"
TORCH = "torch==2.13.0"
PACKAGES = {
    "traceml-ai": (TORCH, "traceml-ai"),
    "gpuprof": (TORCH, "gpuprof[host,torch]"),
    # Made before pandas 3.
    "traceinsight": ("traceinsight==0.6.1", "pandas<3"),
}
LIMIT_S = 1200


class NotInstalled(Exception):
    """The environment of a rival could not be made."""


def environment_of(name: str) -> Path:
    """The bin folder of a rival's environment, which is made if it is not there. Raises `NotInstalled`."""
    folder = CACHE / name
    if not (folder / "complete").exists():
        print(f"installing {name} into {folder} ...", flush=True)
        words = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "numpy", *PACKAGES[name]]
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=LIMIT_S, capture_output=True)
            subprocess.run(words, check=True, timeout=LIMIT_S, capture_output=True, text=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise NotInstalled(f"{name}: {getattr(error, 'stderr', None) or error}") from error
        (folder / "complete").touch()
    return folder / "bin"


def version_of(name: str) -> str:
    """The version that was installed."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    words = [str(environment_of(name) / "python"), "-c", code]
    return subprocess.run(words, check=True, timeout=60, capture_output=True, text=True).stdout.strip()


def command(name: str, script: Path, flags: list[str]) -> list[str]:
    """How a script is run under a rival, by its own first page."""
    bin_folder = environment_of(name)
    if name == "traceml-ai":
        return [str(bin_folder / "traceml"), "run", "--mode=summary", str(script), "--args", *flags]
    return [str(bin_folder / "python"), str(script), *flags]
