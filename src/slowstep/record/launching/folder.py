"""The recording's folder: private, never over another one, invisible to git."""

from __future__ import annotations

import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Final

from slowstep.command_words import analyze
from slowstep.errors import CommandNotStarted
from slowstep.record.launching.leftovers import remove_leftovers_in

if TYPE_CHECKING:
    from slowstep.record.system.place import LauncherRank

DEFAULT_PARENT: Final = "slowstep_runs"
LONGEST_STEM: Final = 64
_LAUNCHER: Final = "launcher"
LAUNCHER_NOTES: Final = f"{_LAUNCHER}.jsonl"
# Another launcher may take away the folder of recordings, when nothing was in its own, at the moment at which it is made here.
_TRIES: Final = 5
_ASIDE: Final = "set-aside"
_STAMPED: Final = re.compile(r"\d{8}-\d{6}-")


def create_folder(*, parent: str | None, stem: str, now_s: float | None = None, place: LauncherRank | None = None) -> str:
    """Create `<parent>/<YYYYmmdd-HHMMSS>-<stem>` with mode 0700 and return its absolute path; `-2`, `-3` ... when it is taken.

    Several launchers of one job create `<parent>/<job>-<stem>/<host>-rank<n>-<pid>`, without a common name of the job
    `<parent>/<YYYYmmdd-HHMMSS>-<stem>-<host>-rank<n>-<pid>`.

    Raises CommandNotStarted when the folder cannot be made: nothing of the user's has run by then.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return _created(os.path.abspath(parent or DEFAULT_PARENT), stem=stem, now_s=now_s, place=place)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and tries_left:
                continue
            raise CommandNotStarted(
                f"the recording cannot be written to {parent or DEFAULT_PARENT}: {error.strerror or error}. "
                "Choose a folder that you may write to with --out DIR. The command was not started."
            ) from error
    raise AssertionError("the last try returns or raises")


def _created(where: str, *, stem: str, now_s: float | None, place: LauncherRank | None) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_s))
    name = f"{stamp}-{_file_name(stem)}"
    ours = _create_parent(where)
    if place is not None and place.job is not None:
        job = os.path.join(where, _file_name(f"{place.job}-{stem}"))
        os.makedirs(job, mode=0o700, exist_ok=True)
        os.chmod(job, 0o700)
        folder = _create_unique(os.path.join(job, _file_name(place.name)))
    else:
        folder = _create_unique(os.path.join(where, name if place is None else f"{name}-{_file_name(place.name)}"))
    _hide_from_git(where if ours else folder)
    remove_leftovers_in(where, but=folder)
    return folder


def remove_folder(folder: str) -> None:
    """Remove a recording in which there is nothing; the folder of its job, or of recordings, too when it was made for this one."""
    shutil.rmtree(folder, ignore_errors=True)
    parent = os.path.dirname(folder)
    try:
        # Only a launcher's of a job has no time in its name. A folder that was named by --out is the user's, empty or not.
        if not _STAMPED.match(os.path.basename(folder)) and not os.listdir(parent):
            os.rmdir(parent)
            parent = os.path.dirname(parent)
        if os.listdir(parent) == [".gitignore"] and os.path.basename(parent) == DEFAULT_PARENT:
            os.unlink(os.path.join(parent, ".gitignore"))
            try:
                os.rmdir(parent)
            except OSError:  # another recording is in it since
                _hide_from_git(parent)
    except OSError:
        pass


def is_recording(folder: str) -> bool:
    """Whether a folder holds a launcher's notes or any process's records. Raises OSError where it may not be looked into."""
    names = os.listdir(folder)
    return LAUNCHER_NOTES in names or any(name.endswith(".rec") for name in names)


def holds_nothing(folder: str) -> bool:
    """Whether no process has recorded anything into a recording, and none can any more: False where that is not known."""
    try:
        with os.scandir(folder) as entries:
            return not any(entry.is_dir() or _is_of_a_process(entry.name) for entry in entries)
    except OSError:
        return False


def _is_of_a_process(name: str) -> bool:
    stem, ending = os.path.splitext(name)
    return ending in (".rec", ".jsonl") and stem != _LAUNCHER


def kept_words(folder: str) -> str:
    """Where a recording is of which no report could be shown, and what shows it later."""
    return f"The recording is kept: {analyze_words(folder)}"


def analyze_words(folder: str) -> str:
    """The command that shows a recording's report."""
    return analyze(as_typed(folder))


def as_typed(path: str) -> str:
    """A path as one would type it here: relative to the current folder where it is below that."""
    try:
        relative = os.path.relpath(path)
    except OSError:  # the current folder is gone
        return path
    return path if relative.startswith("..") else relative


def set_aside(folder: str) -> None:
    """Have room in a recording's folder for another recording: the files of this one wait in a folder of their own. Raises OSError."""
    aside = os.path.join(folder, _ASIDE)
    _clear_of_folders(folder)
    os.mkdir(aside, 0o700)
    # Both are on one disk: nothing is copied.
    for name in _files_of(folder):
        os.rename(os.path.join(folder, name), os.path.join(aside, name))


def put_back(folder: str) -> None:
    """The recording that was set aside, in place of whatever was made since; as it is where none was. Raises OSError."""
    aside = os.path.join(folder, _ASIDE)
    if not os.path.isdir(aside):
        return
    kept = set(os.listdir(aside))
    if kept:
        _clear_of_folders(folder, but=_ASIDE)
    for name in set(_files_of(folder)) - kept if kept else ():
        os.unlink(os.path.join(folder, name))
    for name in os.listdir(aside):
        os.rename(os.path.join(aside, name), os.path.join(folder, name))
    forget_aside(folder)


def forget_aside(folder: str) -> None:
    """Let go of what was set aside."""
    shutil.rmtree(os.path.join(folder, _ASIDE), ignore_errors=True)


def _files_of(folder: str) -> list[str]:
    return [entry.name for entry in os.scandir(folder) if not entry.is_dir(follow_symlinks=False) and entry.name != ".gitignore"]


def _clear_of_folders(folder: str, *, but: str | None = None) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False) and entry.name != but:
            shutil.rmtree(entry.path)


def _create_parent(where: str) -> bool:
    """Whether the parent is a folder of recordings only, and not one of the user's with something else in it."""
    try:
        os.makedirs(where, mode=0o700)
    except FileExistsError:
        return os.path.basename(where) == DEFAULT_PARENT
    return True


def _create_unique(path: str) -> str:
    number = 1
    while True:
        candidate = path if number == 1 else f"{path}-{number}"
        try:
            os.mkdir(candidate, 0o700)
        except FileExistsError:
            number += 1
            continue
        # A umask may have taken more than intended, and a folder that its owner cannot enter is of no use.
        os.chmod(candidate, 0o700)
        return candidate


def _hide_from_git(where: str) -> None:
    try:
        handle = os.open(os.path.join(where, ".gitignore"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    try:
        os.write(handle, b"*\n")
    finally:
        os.close(handle)


def _file_name(stem: str) -> str:
    return re.sub(r"[^\w.\-]+", "_", stem).strip("._")[:LONGEST_STEM] or "run"
