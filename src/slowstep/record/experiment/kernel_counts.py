"""What the kernel counts of processes: bytes that they read, connections that they hold, bytes that came over the network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from slowstep.record.monitors.tree_io import parse_io
from slowstep.record.system.kernel_files import read_text

_ESTABLISHED: Final = "01"
_SOCKET: Final = "socket:["


def bytes_read(pids: Iterable[int], proc: str = "/proc") -> tuple[int, int] | None:
    """Bytes that read calls returned to processes, and bytes that came from storage for them; None where the kernel does not say."""
    called = storage = 0
    for pid in pids:
        text = read_text(f"{proc}/{pid}/io")
        try:
            counted = parse_io((text or "").encode())
        except ValueError:
            return None
        called, storage = called + counted[0], storage + counted[1]
    return called, storage


def bytes_received(proc: str = "/proc") -> int | None:
    """Bytes received over all network interfaces that are seen here, the loopback too; None where the kernel does not say."""
    rows = (read_text(f"{proc}/net/dev") or "").splitlines()[2:]
    try:
        return sum(int(row.partition(":")[2].split()[0]) for row in rows) if rows else None
    except (IndexError, ValueError):
        return None


def connections(pids: Iterable[int], proc: str = "/proc") -> int:
    """How many established internet connections processes hold; those that they share with others count once."""
    return len(_established(proc) & {inode for pid in pids for inode in _sockets(f"{proc}/{pid}/fd")})


def _established(proc: str) -> set[str]:
    found = set()
    for name in ("tcp", "tcp6"):
        for row in (read_text(f"{proc}/net/{name}") or "").splitlines()[1:]:
            fields = row.split()
            if len(fields) > 9 and fields[3] == _ESTABLISHED:
                found.add(fields[9])
    return found


def _sockets(folder: str) -> list[str]:
    found = []
    try:
        for name in os.listdir(folder):
            target = os.readlink(os.path.join(folder, name))
            if target.startswith(_SOCKET):
                found.append(target[len(_SOCKET) : -1])
    except OSError:
        # It has ended, or closed the file meanwhile: what was found stands.
        pass
    return found
