"""System calls of Linux that Python has no function for: namespaces, mounts, a new root. All raise OSError."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any, Final

# linux/sched.h, linux/mount.h, linux/prctl.h
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
MS_RDONLY: Final = 1
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_REMOUNT: Final = 32
MS_NOATIME: Final = 1024
MS_NODIRATIME: Final = 2048
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MS_RELATIME: Final = 1 << 21
MNT_DETACH: Final = 2
PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38

# What os.statvfs says of a mount (sys/statvfs.h), and the flag that keeps it so.
_KEPT: Final = ((2, MS_NOSUID), (4, MS_NODEV), (8, MS_NOEXEC), (1024, MS_NOATIME), (2048, MS_NODIRATIME), (4096, MS_RELATIME))


def unshare(flags: int) -> None:
    """Go on in new namespaces."""
    _check(_libc().unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Mount, bind or remount."""
    words = (None if word is None else os.fsencode(word) for word in (source, target, kind))
    _check(_libc().mount(*words, ctypes.c_ulong(flags), os.fsencode(data) or None), target)


def bind(source: str, target: str) -> None:
    """Show a file or folder, with everything that is mounted below it, at a second place."""
    mount(source, target, None, MS_BIND | MS_REC)


def close_for_writing(path: str) -> None:
    """Make a mount of this namespace read-only; what is mounted below it is not."""
    mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept_flags(path))


def kept_flags(path: str) -> int:
    """The flags of the mount at a path, which a namespace of somebody else's may not take away."""
    told = os.statvfs(path).f_flag
    return sum(flag for bit, flag in _KEPT if told & bit)


def change_root(root: str) -> None:
    """Make a mount the root of this process, and let go of the old one."""
    os.chdir(root)
    # The manual's way without a folder for the old root: it comes to lie on top of the new one, and is taken away.
    _check(_libc().pivot_root(b".", b"."), "pivot_root")
    _check(_libc().umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")


def prctl(option: int, value: int) -> None:
    """Set a property of this process."""
    _check(_libc().prctl(option, value, 0, 0, 0), "prctl")


def syscall(number: int, *arguments: Any) -> int:
    """A system call by its number, of those that have the same one on every machine (424 and above)."""
    return _check(_libc().syscall(number, *arguments), f"syscall {number}")


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
