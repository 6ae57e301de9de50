"""`slowstep prove --patch FILE`: the change that was proved, as a file that `patch` and `git apply` take, and take back."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from slowstep.errors import BadUsage, UnwritableOutput

if TYPE_CHECKING:
    from slowstep.prove.patch.change import ScriptChange


def check_patch_target(patch: str | None) -> None:
    """Whether the file can be written, and nothing is written over by it: before the experiment starts. Raises BadUsage."""
    if patch is None:
        return
    path = Path(patch)
    if path.is_dir() or patch == "-":
        raise BadUsage(f"--patch {patch}: name a file for the patch, such as {'' if patch == '-' else patch.rstrip('/') + '/'}fix.patch.")
    if os.path.lexists(path):
        raise BadUsage(f"--patch {patch}: the file exists, and nothing is written over. Name another, or remove it first.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise BadUsage(f"--patch {patch}: there is no folder {folder}. Make it first, or name another.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadUsage(f"--patch {patch}: nothing can be written into {folder}. Name a file in another folder.")


def write_patch(patch: str, change: ScriptChange) -> list[str]:
    """Write it, where there is a change to write. Returns what to say of it.

    Raises UnwritableOutput where the file is there by now, or cannot be written.
    """
    if change.difference is None:
        return [f"slowstep: no patch: {change.reason}"]
    try:
        with Path(patch).open("xb") as file:
            file.write(change.difference)
    except OSError as error:
        raise UnwritableOutput(f"--patch {patch} cannot be written: {error.strerror or error}.") from error
    folder = change.folder or ""
    there = "" if os.path.realpath(folder) == os.path.realpath(os.curdir) else shlex.quote(folder)
    apply = f"patch -p0{f' -d {there}' if there else ''} < {shlex.quote(patch)}"
    git = f"git{f' -C {there}' if there else ''} apply -p0 {shlex.quote(os.path.abspath(patch) if there else patch)}"
    return [f"slowstep: wrote the change of {change.place} to {patch}", f"  {apply}   (or {git}; -R takes it back)"]
