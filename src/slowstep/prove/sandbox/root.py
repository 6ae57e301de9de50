"""The root that the experiment sees: every writable folder of the machine with an overlay over it, so that all writes go to the scratch."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Final

from slowstep.prove.sandbox import system
from slowstep.prove.sandbox.mounts import Mount, is_within, reachable, read_mounts

# Beyond so many, folders are read-only, and sockets and shared files are missing: a limit to how long this takes.
_MOST_OVERLAYS: Final = 256
_MOST_SOCKETS: Final = 64
_MOST_SHARED: Final = 256
_SHM: Final = "/dev/shm"


class Root:
    """Builds the new root at `place`, with the layers that take the writes in `layers`.

    `closed` are folders that can be written to outside and cannot here: what is read-only fails loudly, and changes nothing.
    """

    def __init__(self, place: str, layers: str, options: str) -> None:
        self._place, self._layers, self._options = place, layers, options
        self._all = [mount for mount in read_mounts() if not is_within(mount.path, layers)]
        self._mounts = reachable(self._all)
        self._overlays = 0
        self._open: list[str] = []
        self.closed: list[str] = []

    def build(self) -> None:
        """Mount all of it. Raises OSError where a writable file system can be neither overlaid nor closed: then nothing may run here."""
        top = next(mount for mount in self._mounts if mount.path == "/")
        self._mount(top, is_shown=False)
        self._share_memory()
        self._bind_sockets()

    def bind(self, source: str, path: str) -> None:
        """Show a folder at a path, as it is and writable."""
        system.bind(source, self._at(path))

    def _at(self, path: str) -> str:
        return self._place + path.rstrip("/")

    def _mount(self, mount: Mount, *, is_shown: bool) -> None:
        try:
            self._mount_all_at(mount, is_shown=is_shown)
        except FileNotFoundError:
            # What was removed meanwhile (another's socket in /tmp) is not there to be changed.
            if not _is_removed(mount.path):
                raise

    def _mount_all_at(self, mount: Mount, *, is_shown: bool) -> None:
        path, is_shown = mount.path, is_shown and mount.is_bound
        if mount.is_bound:
            self._show(path)
        elif not os.path.isdir(path):
            self._show(path)
            self._close(path)
        elif not self._overlay(path):
            self._show(path)
            self._overlay_each_in(path)
            is_shown = True
        for child in self._children(path):
            # With a folder that is bound, what is mounted below it is there already; of that, what can be written to is covered.
            if not (child.is_bound and (is_shown or mount.is_bound)):
                self._mount(child, is_shown=is_shown or mount.is_bound)

    def _children(self, path: str) -> list[Mount]:
        below = [mount for mount in self._mounts if mount.path != path and is_within(mount.path, path)]
        return [mount for mount in below if not any(other is not mount and is_within(mount.path, other.path) for other in below)]

    def _show(self, path: str) -> None:
        system.bind(path, self._at(path))

    def _close(self, path: str) -> None:
        system.close_for_writing(self._at(path))

    def _overlay(self, path: str) -> bool:
        """Whether there is now an overlay over a folder: some file systems cannot be below one."""
        if self._overlays >= _MOST_OVERLAYS:
            return False
        upper, work = (os.path.join(self._layers, f"{self._overlays}", name) for name in ("upper", "work"))
        os.makedirs(upper, 0o700)
        os.mkdir(work, 0o700)
        self._overlays += 1
        try:
            _resemble(path, upper)
            overlay(path, upper, work, self._at(path), self._options)
        except OSError:
            shutil.rmtree(os.path.dirname(upper), ignore_errors=True)
            return False
        self._open.append(path)
        return True

    def _overlay_each_in(self, path: str) -> None:
        """Close a folder that itself cannot be overlaid, and overlay the folders in it.

        In a namespace of another user than root's, no folder can be that has something mounted below it (the mounts are locked).
        """
        if path in {mount.path for mount in self._mounts}:
            self._close(path)
        if os.access(path, os.W_OK):
            self.closed.append(path)
        for inner in _folders_in(path):
            if any(mount.path == inner for mount in self._mounts):
                continue
            if any(is_within(mount.path, inner) for mount in self._all):
                self._overlay_each_in(inner)
            elif not self._overlay(inner) and os.access(inner, os.W_OK):
                self.closed.append(inner)

    def _share_memory(self) -> None:
        """A fresh /dev/shm, as large and as fast as the old one, so that a killed loader leaves nothing there.

        What others keep there (a data set, say) can be read, and not changed.
        """
        shm = os.path.realpath(_SHM)
        if not os.path.isdir(shm):
            return
        room = os.statvfs(shm)
        system.mount("tmpfs", self._at(shm), "tmpfs", system.MS_NOSUID | system.MS_NODEV, f"mode=1777,size={room.f_blocks * room.f_frsize}")
        for name in sorted(os.listdir(shm))[:_MOST_SHARED]:
            self._show_closed(os.path.join(shm, name))

    def _show_closed(self, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(path), self._at(path))
                return
            if stat.S_ISDIR(mode):
                os.mkdir(self._at(path))
            else:
                os.close(os.open(self._at(path), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            self._show(path)
        except OSError:
            return  # gone meanwhile: others' semaphores come and go
        self._close(path)

    def _bind_sockets(self) -> None:
        """Show sockets past the overlays: seen through one, a socket answers nobody."""
        found = [path for path in _socket_paths() if any(is_within(path, folder) for folder in self._open)]
        for path in found[:_MOST_SOCKETS]:
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    self._show(path)
            except OSError:
                continue


def overlay(lower: str, upper: str, work: str, target: str, options: str) -> None:
    """Mount an overlay. Raises OSError."""
    # By descriptors: commas, colons and backslashes in paths have meanings in mount options.
    handles = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (lower, upper, work)]
    try:
        layers = "lowerdir=/proc/self/fd/{},upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{}".format(*handles)
        flags = system.kept_flags(lower) & (system.MS_NOSUID | system.MS_NODEV | system.MS_NOEXEC)
        system.mount("overlay", target, "overlay", flags, f"{layers},{options}")
    finally:
        for handle in handles:
            os.close(handle)


def _resemble(lower: str, upper: str) -> None:
    """Give the upper folder, whose properties the overlay has, those of the lower one."""
    found = os.stat(lower)
    try:
        os.chown(upper, found.st_uid, found.st_gid)
    except OSError:
        pass  # not root: then it is this user's own, and in here it can be written to
    os.chmod(upper, stat.S_IMODE(found.st_mode))
    os.utime(upper, ns=(found.st_atime_ns, found.st_mtime_ns))


def _is_removed(path: str) -> bool:
    """Whether nothing is at a path, or only a mount of what was removed: in a namespace that shows another's files, it outlives them."""
    try:
        return os.lstat(path).st_nlink == 0
    except FileNotFoundError:
        return True


def _folders_in(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _socket_paths() -> list[str]:
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.rstrip("\n").split(maxsplit=7) for line in file]
    except OSError:
        return []
    return sorted({row[7] for row in rows if len(row) == 8 and row[7].startswith("/")})
