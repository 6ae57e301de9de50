"""Control groups, versions 1 and 2: the folders that say what a process may use of processors and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slowstep.record.system.kernel_files import read_text

# Version 1 says "no limit" by the largest multiple of a page that fits into 63 bits; nothing has as much memory as an eighth of that.
_NO_LIMIT_BYTES: Final = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A limit on CPU time: so many cores' worth, set in a folder."""

    cores: float
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """Where a control group says what memory it uses: the files' names, and the bytes allowed (None is no limit)."""

    folder: str
    used: str
    limit_bytes: int | None


def find_quota(pid: int | str = "self", *, proc: str = "/proc", sys: str = "/sys") -> Quota | None:
    """The tightest quota of a process's control group and of all above it; None where none is set."""
    found = [quota for folder in _folders("cpu", pid, proc, sys) if (quota := _quota(folder)) is not None]
    return min(found, key=lambda quota: quota.cores, default=None)


def find_memory_limit(pid: int | str = "self", *, proc: str = "/proc", sys: str = "/sys") -> MemoryLimit | None:
    """The tightest memory limit of a process's control group and of all above it; None where no group counts memory.

    Without a limit it is the process's own group.
    """
    found = [limit for folder in _folders("memory", pid, proc, sys) if (limit := _memory_limit(folder)) is not None]
    limited = [limit for limit in found if limit.limit_bytes is not None]
    if limited:
        return min(limited, key=lambda limit: limit.limit_bytes or 0)
    return found[-1] if found else None


def _folders(controller: str, pid: int | str, proc: str, sys: str) -> list[str]:
    """Folders of the control group and of all above it, outermost first, where they may say something about a controller.

    In a container the path in /proc may be the host's while /sys shows the container's own group as the root: all are tried.
    """
    folders = []
    for line in (read_text(f"{proc}/{pid}/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        roots = [f"{sys}/fs/cgroup/{name}" for name in dict.fromkeys((controller, controllers or "unified"))]
        if not controllers:
            roots = [f"{sys}/fs/cgroup", f"{sys}/fs/cgroup/unified"]
        parts = [part for part in path.split("/") if part and part != ".."]
        for root in roots:
            folders += ["/".join([root, *parts[:depth]]) for depth in range(len(parts) + 1)]
    return folders


def _quota(folder: str) -> Quota | None:
    unified = (read_text(folder + "/cpu.max") or "").split()
    quota, period = unified if len(unified) == 2 else (_word(folder + "/cpu.cfs_quota_us"), _word(folder + "/cpu.cfs_period_us"))
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return Quota(cores=int(quota) / int(period), folder=folder)


def _memory_limit(folder: str) -> MemoryLimit | None:
    for used, limit in (("memory.current", "memory.max"), ("memory.usage_in_bytes", "memory.limit_in_bytes")):
        if _word(f"{folder}/{used}").isdigit():
            allowed = _word(f"{folder}/{limit}")
            limited = allowed.isdigit() and int(allowed) < _NO_LIMIT_BYTES
            return MemoryLimit(folder=folder, used=f"{folder}/{used}", limit_bytes=int(allowed) if limited else None)
    return None


def _word(path: str) -> str:
    return (read_text(path) or "").strip()
