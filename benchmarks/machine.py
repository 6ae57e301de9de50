"""What the machine of a benchmark is: the facts that stand beside its numbers."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """CPU, cores, kernel, versions and load."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": installed_version("torch"),
        "slowstep": installed_version("slowstep"),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def cpu_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def installed_version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def busy_ticks() -> tuple[int, int]:
    """(ticks in which a core was busy, all ticks) of the machine since it was started."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def in_words(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}, "
        f"torch {machine['torch']}, load at the start {machine['load'][0]}"
    )


if __name__ == "__main__":
    sys.stdout.write(in_words(describe()) + "\n")
