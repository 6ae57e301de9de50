"""Holds back writes outside some folders, by the kernel's Landlock (man 7 landlock): for good, and for all that is started from here."""

from __future__ import annotations

import ctypes
import os
import stat
from typing import Final

from slowstep.prove.sandbox import system

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
# linux/landlock.h: the rights that change files, and the version with which each came.
_WRITE_FILE: Final = 1 << 1
_REMOVE_AND_MAKE: Final = sum(1 << bit for bit in range(4, 13))
_REFER: Final = 1 << 13  # 2: without it files cannot be moved between folders at all
_TRUNCATE: Final = 1 << 14  # 3
_LEAST: Final = 2
# Folders of the kernel's, where programs write to devices and to their own settings.
ALWAYS: Final = ("/dev", "/proc")


def version() -> int:
    """The version of Landlock that can be used here; 0 where it cannot, or would forbid too much."""
    try:
        found = system.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except (OSError, AttributeError):
        return 0
    return found if found >= _LEAST else 0


def restrict_writes(folders: tuple[str, ...]) -> None:
    """Allow this process to write, create and remove below these folders only. Raises OSError. Owners, modes and times stay free."""
    on_files = _WRITE_FILE | (_TRUNCATE if version() >= 3 else 0)
    rights = on_files | _REMOVE_AND_MAKE | _REFER
    handled = ctypes.c_uint64(rights)
    ruleset = system.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    try:
        for folder in (*folders, *ALWAYS):
            _allow(ruleset, folder, rights, on_files)
        system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
        system.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, folder: str, rights: int, on_files: int) -> None:
    handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        rule = _PathBeneath(rights if is_folder else on_files, handle)
        system.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(handle)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))
