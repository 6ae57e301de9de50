"""The mounts of this process, as /proc/self/mountinfo lists them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

# What is in them is no file of anybody's, but the kernel's; and where devices and the kernel's files are shown, whatever it is made of.
_PSEUDO: Final = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl"),
        *("hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"),
    )
)
_PLACES: Final = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file system at a path. `is_bound`: it is shown as it is, because nothing of the user's could be changed there."""

    number: int
    path: str
    kind: str
    read_only: bool

    @property
    def is_bound(self) -> bool:
        """Whether it is the kernel's, or read-only."""
        return self.read_only or self.kind in _PSEUDO or any(is_within(self.path, place) for place in _PLACES)


def read_mounts() -> list[Mount]:
    """All mounts of this process, also those that others hide."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return parse_mounts(file.read())


def parse_mounts(text: str) -> list[Mount]:
    """The lines of a mountinfo (man 5 proc_pid_mountinfo)."""
    mounts = []
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        number, _, _, _, path, options, *_ = fields.split(" ")
        kind, _, of_all = rest.split(" ", 2)
        read_only = "ro" in options.split(",") or "ro" in of_all.split(",")
        mounts.append(Mount(number=int(number), path=_unescaped(path), kind=kind, read_only=read_only))
    return mounts


def reachable(mounts: list[Mount]) -> list[Mount]:
    """Those that their path leads to, upper ones first: others lie hidden under later ones, or where this user may not look."""
    return sorted((mount for mount in mounts if mount_at(mount.path) == mount.number), key=lambda mount: mount.path.rstrip("/").count("/"))


def mount_at(path: str) -> int | None:
    """The number of the mount in which a path lies; None where it cannot be seen."""
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with open(f"/proc/self/fdinfo/{handle}", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("mnt_id:")), None)
    finally:
        os.close(handle)


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies below it; both absolute and normal."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)
