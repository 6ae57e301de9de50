"""What there is room for: free memory, shared memory, and what a worker takes of it."""

from __future__ import annotations

import os
from typing import Final

from slowstep.record.system.cgroups import find_memory_limit
from slowstep.record.system.facts import memory_available_bytes
from slowstep.record.system.kernel_files import read_size, read_text

MIB: Final = 2**20
SHARED: Final = "/dev/shm"


def memory_free_bytes() -> int | None:
    """Memory that may still be used, of the machine and of the control group; None where neither says."""
    free = memory_available_bytes()
    group = find_memory_limit()
    if group is not None and group.limit_bytes is not None:
        used = (read_text(group.used) or "").strip()
        # File pages are counted as used though they can be dropped: this errs on the safe side.
        left = group.limit_bytes - int(used) if used.isdigit() else None
        free = left if free is None else free if left is None else min(free, left)
    return free


def shared_free_bytes() -> int | None:
    """Room for shared memory, in which workers put their batches; None where the system does not say."""
    try:
        status = os.statvfs(SHARED)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def own_bytes(pid: int) -> int | None:
    """Memory that is a process's own, and not shared with the one that it was forked from; None where the system does not say."""
    return read_size(f"/proc/{pid}/smaps_rollup", "Private_Dirty:")


def resident_bytes() -> int | None:
    """Memory of this process that is resident now; None where the system does not say."""
    return read_size("/proc/self/status", "VmRSS:")


def resident_peak_bytes() -> int | None:
    """The most of it since `forget_resident_peak`."""
    return read_size("/proc/self/status", "VmHWM:")


def forget_resident_peak() -> None:
    """Begin the peak anew. Raises OSError where the system does not let us."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
