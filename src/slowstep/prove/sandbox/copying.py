"""Copies the working folder, with shared blocks where its file system can, and with a limit."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from slowstep.prove.sandbox.mounts import is_within

LIMIT_BYTES: Final = 2_000_000_000
MOST_ENTRIES: Final = 200_000
LIMIT_S: Final = 60.0
# linux/fs.h; the same on x86 and arm.
_FICLONE: Final = 0x40049409
# What marks the folder of a Python environment: large, and nothing that a training writes to.
_ENVIRONMENTS: Final = ("pyvenv.cfg", "conda-meta")


class TooLarge(Exception):
    """The folder is larger than is copied; the message says by what."""


@dataclass(kw_only=True)
class Copy:
    """A copy of a folder. `linked` are the folders in it that are links to the originals, `left_out` those that are not in it."""

    source: str
    target: str
    left_out: tuple[str, ...] = ()
    limit_bytes: int = LIMIT_BYTES
    linked: list[str] = field(default_factory=list)
    copied_bytes: int = 0

    def make(self) -> None:
        """Copy everything: contents, modes and times; links that lead into the folder lead into the copy. Files that cannot be read are
        left out, as the command cannot read them either. Raises TooLarge, and OSError where the folder or the disk does not let it.
        """
        self._deadline_s = time.monotonic() + LIMIT_S
        self._entries = 0
        self._folder(self.source, self.target)

    def _folder(self, source: str, target: str) -> None:
        os.mkdir(target, 0o700)
        for entry in self._entries_of(source):
            self._entry(entry, os.path.join(target, entry.name))
        # Last: the folder may be closed for writing, and its time changes with each file in it.
        _copy_properties(source, target)

    def _entries_of(self, folder: str) -> Iterator[os.DirEntry[str]]:
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > MOST_ENTRIES or time.monotonic() > self._deadline_s:
                    raise TooLarge(f"it has more files than can be copied in a minute ({self._entries:,} so far)")
                if not any(is_within(entry.path, path) for path in self.left_out):
                    yield entry

    def _entry(self, entry: os.DirEntry[str], target: str) -> None:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(self._led_right(os.readlink(entry.path), os.path.dirname(entry.path)), target)
        elif stat.S_ISDIR(mode) and any(os.path.lexists(os.path.join(entry.path, name)) for name in _ENVIRONMENTS):
            os.symlink(entry.path, target)
            self.linked.append(entry.path)
        elif stat.S_ISDIR(mode) and os.access(entry.path, os.R_OK | os.X_OK):
            self._folder(entry.path, target)
        elif stat.S_ISREG(mode) and os.access(entry.path, os.R_OK):
            self._file(entry, target)

    def _led_right(self, link: str, folder: str) -> str:
        """The text with which a link leads from the copy where it leads from its folder, and into the copy if that is in the source."""
        way = _way(link, folder)
        if not os.path.isabs(link) and all(is_within(path, self.source) for path in way):
            return link
        for end in (way[-1], os.path.realpath(way[-1])):
            if is_within(end, self.source):
                return os.path.normpath(os.path.join(self.target, os.path.relpath(end, self.source)))
        return way[-1]

    def _file(self, entry: os.DirEntry[str], target: str) -> None:
        if not _share_blocks(entry.path, target):
            self.copied_bytes += entry.stat(follow_symlinks=False).st_size
            if self.copied_bytes > self.limit_bytes:
                raise TooLarge(f"it has more than {self.limit_bytes / 1e9:.1f} GB in it")
            shutil.copyfile(entry.path, target)
        _copy_properties(entry.path, target)


def _way(link: str, folder: str) -> list[str]:
    """The paths by which a link leads, its end last; none of them has a `..` in it."""
    way = [os.sep if os.path.isabs(link) else folder]
    for name in link.split(os.sep):
        if name == os.pardir:
            # As the kernel goes: above the folder to which a link leads, not above the link.
            way.append(os.path.dirname(os.path.realpath(way[-1])))
        elif name not in ("", os.curdir):
            way.append(os.path.join(way[-1], name))
    return way


def _share_blocks(source: str, target: str) -> bool:
    """Whether the file system has made a copy that shares its blocks with the original until one of them is changed."""
    with open(source, "rb") as original, open(target, "wb") as copy:
        try:
            fcntl.ioctl(copy, _FICLONE, original.fileno())
        except OSError:
            return False
    return True


def _copy_properties(source: str, target: str) -> None:
    try:
        shutil.copystat(source, target, follow_symlinks=False)
    except OSError:
        pass  # attributes that the copy's file system does not have
