"""The sandbox where no overlay is possible: a copy of the working folder, with what the command is told pointed there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Final

from slowstep.prove.sandbox import landlock
from slowstep.prove.sandbox.copying import LIMIT_BYTES, Copy, TooLarge
from slowstep.prove.sandbox.entry_trial import try_out
from slowstep.prove.sandbox.moved import Moved
from slowstep.prove.sandbox.opened import Impossible, Opened, fresh, write_ratio
from slowstep.prove.sandbox.overlaid import CLAIMS, SCRATCH
from slowstep.prove.sandbox.removal import remove
from slowstep.prove.sandbox.room import LEAST_BYTES, free_bytes
from slowstep.prove.sandbox.spec import EntrySpec
from slowstep.record.launching.folder import DEFAULT_PARENT
from slowstep.record.writing.format import ENV_UNPROTECTED

# So many links are made, those of the nearest folders first: each takes as long as a file.
MOST_LINKS: Final = 20_000


def place_of_copy(cwd: str, root: str) -> str:
    """Where below `root` the copy of a folder goes: as deep as the folder itself, in folders of the same names. Raises OSError."""
    target = (root + cwd).rstrip(os.sep)
    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
    return target


def link_neighbours(cwd: str, root: str, *, most: int = MOST_LINKS) -> list[str]:
    """Link to all that lies beside a folder, and beside each folder above it. Raises OSError where the disk does not let it.

    Returns the folders of which not all could be linked: that cannot be listed, or hold too much.
    """
    missing, left = [], most
    for above in _folders_above(cwd):
        names = _names_in(above, left)
        if names is None:
            missing.append(above)
            continue
        left -= len(names)
        for name in names:
            link = os.path.join(root + above, name)
            if not os.path.lexists(link):
                os.symlink(os.path.join(above, name), link)
    return missing


def _folders_above(folder: str) -> Iterator[str]:
    while (above := os.path.dirname(folder)) != folder:
        yield above
        folder = above


def _names_in(folder: str, most: int) -> list[str] | None:
    """What a folder holds; None where it cannot be listed, or is more than `most`."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > most:
                    return None
    except OSError:
        return None  # a folder that others may pass through, as that of all homes may be
    return names


# What the kernel refuses a program does not hold back `chmod` and `utime` (docs/sandbox.md).
CONTENT_CLAIMS: Final = "no file's content changed"
# Caches that programs write wherever they run; in a copy they begin empty. A tracker's or compiler's own words for its folder.
_CACHES: Final = ("XDG_CACHE_HOME", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR")


def open_copy(folder: str, cwd: str, *, limit_bytes: int = LIMIT_BYTES, hold_back: bool | None = None) -> Opened:
    """Copy the working folder and try to enter it. `hold_back`: whether writes elsewhere are refused; None: where the kernel can.

    Raises Impossible where the folder is too large, or cannot be copied.
    """
    scratch = os.path.join(folder, SCRATCH)
    # Short: sockets are put there, and their paths may have 107 characters.
    temporary = tempfile.mkdtemp(prefix="slowstep-")
    places = (scratch, temporary)
    try:
        return _opened(folder, os.path.realpath(cwd), places, limit_bytes, bool(landlock.version()) if hold_back is None else hold_back)
    except BaseException:  # Ctrl-C too: the copy is removed
        for place in places:
            remove(place)
        raise


def _opened(folder: str, cwd: str, places: tuple[str, str], limit_bytes: int, hold_back: bool) -> Opened:
    scratch = places[0]
    fresh(scratch)
    copy, unlinked = _copied(folder, cwd, scratch, limit_bytes)
    outputs = os.path.join(scratch, "outputs")
    os.mkdir(outputs)
    writable = (folder, *places) if hold_back else None
    spec = EntrySpec(kind="copy", folder=folder, scratch=scratch, mine=scratch, cwd=copy.target, writable=writable)
    answer = try_out(spec)
    return Opened(
        kind="copy",
        claims=CONTENT_CLAIMS if hold_back else f"{CLAIMS} in {cwd}",
        spec=spec,
        places=places,
        warnings=tuple(_warnings(copy, unlinked, hold_back=hold_back)),
        write_ratio=write_ratio(answer["write_mb_per_s"], folder),
        moved=Moved(folder=cwd, copy=copy.target, kept=(*copy.left_out, *copy.linked), outputs=outputs),
        variables=_variables(copy.target, places, hold_back=hold_back),
    )


def _variables(target: str, places: tuple[str, str], *, hold_back: bool) -> dict[str, str]:
    scratch, temporary = places
    caches = {name: os.path.join(scratch, "caches", name.lower()) for name in _CACHES}
    # Levers that leave something in files must know that some of these files may be the user's.
    return {"TMPDIR": temporary, "PWD": target} | caches | ({} if hold_back else {ENV_UNPROTECTED: "1"})


def _copied(folder: str, cwd: str, scratch: str, limit_bytes: int) -> tuple[Copy, list[str]]:
    """The copy, and the folders above it of which not all is linked beside it."""
    root = os.path.join(scratch, "copy")
    left_out = (folder, os.path.join(cwd, DEFAULT_PARENT))
    try:
        copy = Copy(source=cwd, target=place_of_copy(cwd, root), left_out=left_out)
        copy.limit_bytes = min(limit_bytes, max(free_bytes(scratch) - LEAST_BYTES, 0))
        copy.make()
        return copy, link_neighbours(cwd, root)
    except TooLarge as error:
        raise Impossible(f"{cwd} is too large to be copied: {error}") from error
    except OSError as error:
        raise Impossible(f"{cwd} cannot be copied: {error}") from error


def _warnings(copy: Copy, unlinked: list[str], *, hold_back: bool) -> Iterator[str]:
    yield f"The script runs in a copy of {copy.source}: caches begin empty, and files are new to the disk's own cache."
    if copy.linked:
        yield f"Not copied, because they hold a Python environment: {', '.join(copy.linked)}."
    if unlinked:
        yield f"By paths with .. the script finds nothing else in {', '.join(unlinked)}: it cannot be listed, or holds too much."
    if hold_back:
        yield "Where the script writes elsewhere, by an absolute path or a link, the write fails; modes and times that it sets are set."
    else:
        yield (
            f"Only files in {copy.source} are protected: what the script writes elsewhere, by an absolute path or a link, is written, "
            "each time that it is started."
        )
