"""Enters a sandbox: the process that does it, and all that it starts, can change no file of the user's afterwards."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from slowstep.prove.sandbox import landlock, system, trial
from slowstep.prove.sandbox.root import Root

if TYPE_CHECKING:
    from slowstep.prove.sandbox.spec import EntrySpec

# Where in the scratch things are.
LAYERS: Final = "layers"
NEW_ROOT: Final = "root"


def enter(spec: EntrySpec, *, is_trial: bool = False) -> list[str]:
    """Enter; returns the folders that can be written to outside and not inside. Raises OSError where that is not possible.

    A trial first shows that overlays keep what they should.
    """
    closed: list[str] = []
    if spec.kind == "overlay":
        closed = _enter_overlay(spec, is_trial=is_trial)
    elif spec.writable is not None:
        landlock.restrict_writes(spec.writable)
    os.chdir(spec.cwd)
    return closed


def _enter_overlay(spec: EntrySpec, *, is_trial: bool) -> list[str]:
    _new_namespaces(with_user=spec.new_user)
    system.mount(None, "/", None, system.MS_REC | system.MS_PRIVATE)
    layers, place = os.path.join(spec.scratch, LAYERS), os.path.join(spec.scratch, NEW_ROOT)
    if spec.memory_bytes is not None:
        system.mount("tmpfs", layers, "tmpfs", system.MS_NOSUID | system.MS_NODEV, f"mode=0700,size={spec.memory_bytes}")
    if is_trial:
        trial.check_overlay(layers, spec.options)
    root = Root(place, layers, spec.options)
    root.build()
    root.bind(spec.folder, spec.folder)
    # In place of the scratch: its layers must not be written to but through the overlays.
    root.bind(spec.mine, spec.scratch)
    system.change_root(place)
    return root.closed


def _new_namespaces(*, with_user: bool) -> None:
    user, group = os.getuid(), os.getgid()
    try:
        system.unshare(system.CLONE_NEWNS | (system.CLONE_NEWUSER if with_user else 0))
    except OSError as error:
        # Not in the kernel's words: "No space left on device" is how it says that a limit is zero.
        name = errno.errorcode.get(error.errno or 0, error)
        raise OSError(f"this system allows no mount namespace of the script's own ({name})") from error
    if not with_user:
        return
    # A user may map itself and nobody else, and its group only where groups can be given up no more (man 7 user_namespaces).
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)
