"""Facts about this process and what it may use, recorded so that an analysis never asks the machine it runs on itself."""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import Any

from slowstep.record.framework import versions
from slowstep.record.system.cgroups import find_quota
from slowstep.record.system.kernel_files import read_size, read_text
from slowstep.record.system.redact import known_variables, redact_command
from slowstep.record.writing.format import FORMAT_VERSION

# What a processor computes with in 16 bits by itself, as Linux calls it: of x86, and of ARM.
NARROW_ARITHMETIC = frozenset(("avx512_bf16", "amx_bf16", "avx512_fp16", "amx_fp16", "bf16", "fphp", "asimdhp"))
# The kernel writes a block for each core, of which one has some two thousand characters.
_FIRST_CORE = 8192


def process_line(role: dict[str, Any], *, level: int, started_ns: int) -> dict[str, Any]:
    """The first line of a process's notes."""
    return {
        "kind": "process",
        "format": FORMAT_VERSION,
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "started_ns": started_ns,
        "realtime_ns": time.time_ns(),
        "boot_id": boot_id(),
        "process_ids": process_ids(),
        **role,
        "argv": redact_command(getattr(sys, "orig_argv", sys.argv)),
        "executable": sys.executable,
        "python": platform.python_version(),
        **versions(),
        "script": script(),
        "import_path": import_path(),
        "cwd": _cwd(),
        "cores_allowed": cores_allowed(),
        # One file a core is read for it, and nobody asks it of the many workers that a loader starts.
        "physical_cores": None if role.get("role") == "worker" else physical_cores(),
        "cpu_flags": None if role.get("role") == "worker" else cpu_flags(),
        "cpu_quota": cpu_quota(),
        "memory_available_bytes": memory_available_bytes(),
        "level": level,
        "env": known_variables(os.environ),
    }


def boot_id() -> str | None:
    """This machine's boot: clocks of processes with another one cannot be compared. None where the kernel does not say."""
    return _first_line("/proc/sys/kernel/random/boot_id")


def process_ids() -> str | None:
    """The namespace of this process's number: in another container the same number is another process. None where the kernel has none."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def script() -> str | None:
    """The file that Python was started with; None for `-c`, an interactive session or an embedded Python."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(path) if isinstance(path, str) else None


def import_path() -> list[str]:
    """The folders in which Python looks for modules: a file's module is named by its path below one. Empty where they are not known."""
    try:
        # Somebody may have put a Path there.
        return [os.path.abspath(str(entry)) for entry in sys.path]
    except OSError:  # the current folder is gone
        return []


def cores_allowed() -> int | None:
    """Cores that this process may run on; None where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def physical_cores() -> int | None:
    """Physical ones among those: hardware threads of one core share what computes. None where the system does not say."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    siblings = {_first_line(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") for number in os.sched_getaffinity(0)}
    return None if None in siblings else len(siblings)


def cpu_flags(path: str = "/proc/cpuinfo") -> list[str] | None:
    """What of the arithmetic in 16 bits its first core has; None where the system does not say."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_FIRST_CORE).splitlines()
    except OSError:
        return None
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), None)
    return None if flags is None else sorted(NARROW_ARITHMETIC.intersection(flags))


def cpu_quota() -> float | None:
    """Cores' worth of CPU time that the control group allows; None where it sets no limit."""
    quota = find_quota()
    return None if quota is None else quota.cores


def cores_to_use() -> float | None:
    """What both leave this process; None where neither is known."""
    return min((cores for cores in (cores_allowed(), cpu_quota()) if cores is not None), default=None)


def memory_available_bytes() -> int | None:
    """Memory that could be used without swapping, by the kernel's estimate; the limit of a control group is left out of it."""
    return read_size("/proc/meminfo", "MemAvailable:")


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _first_line(path: str) -> str | None:
    lines = (read_text(path) or "").splitlines()
    return lines[0].strip() if lines else None
