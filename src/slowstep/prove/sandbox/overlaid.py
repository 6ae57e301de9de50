"""The sandbox that holds back all writes: overlays over every writable folder, in a mount namespace of the script's own."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

from slowstep.prove.sandbox import spec as entering
from slowstep.prove.sandbox.enter import LAYERS, NEW_ROOT
from slowstep.prove.sandbox.entry_trial import try_out
from slowstep.prove.sandbox.opened import Impossible, Opened, fresh, write_ratio
from slowstep.prove.sandbox.removal import remove
from slowstep.prove.sandbox.room import LEAST_BYTES, free_bytes
from slowstep.prove.sandbox.spec import EntrySpec
from slowstep.record.system.facts import memory_available_bytes

CLAIMS: Final = "no file changed"
SCRATCH: Final = "scratch"
# The layers lie in memory only where no disk can take them (a container's own file system is an overlay already).
_MOST_MEMORY_BYTES: Final = 4_000_000_000
_MOST_NAMED: Final = 4
_LIMIT_S: Final = 60.0


def open_overlay(folder: str, cwd: str) -> Opened:
    """Try every way until one is shown to hold. Raises Impossible with what the kernel said to the last one on a disk."""
    on_disk, in_memory, deadline_s = "no folder for the scratch has room", "", time.monotonic() + _LIMIT_S
    for scratch, memory_bytes in _places(folder):
        for new_user, options in ((False, entering.ROOT), (False, entering.USER), (True, entering.USER)):
            spec = EntrySpec(
                kind="overlay",
                folder=folder,
                scratch=scratch,
                mine=os.path.join(scratch, "mine"),
                cwd=cwd,
                new_user=new_user,
                options=options,
                memory_bytes=memory_bytes,
            )
            if time.monotonic() > deadline_s:
                raise Impossible(f"{on_disk}{in_memory}; no more was tried after {_LIMIT_S:.0f} s")
            try:
                return _opened(spec, _tried(spec))
            except BaseException as said:  # Ctrl-C too: the scratch is removed
                remove(scratch)
                if not isinstance(said, Impossible):
                    raise
                if memory_bytes is None:
                    on_disk = str(said)
                elif str(said) != on_disk:
                    in_memory = f"; in memory: {said}"
    raise Impossible(on_disk + in_memory)


def _places(folder: str) -> Iterator[tuple[str, int | None]]:
    """Where the layers may lie, best first: the recording's disk is most often that of the script's own files."""
    elsewhere = dict.fromkeys((tempfile.gettempdir(), "/var/tmp"))
    for place in (os.path.join(folder, SCRATCH), *(os.path.join(above, f"slowstep-{uuid.uuid4().hex[:8]}") for above in elsewhere)):
        try:
            if free_bytes(os.path.dirname(place)) >= LEAST_BYTES:
                yield place, None
        except OSError:
            continue
    memory = memory_available_bytes()
    if memory is not None and memory // 4 >= LEAST_BYTES:
        yield os.path.join(folder, SCRATCH), min(memory // 4, _MOST_MEMORY_BYTES)


def _tried(spec: EntrySpec) -> dict[str, Any]:
    _make(spec)
    answer = try_out(spec)
    # The layers of the trial are used up.
    _make(spec)
    return answer


def _make(spec: EntrySpec) -> None:
    fresh(spec.scratch)
    for path in (os.path.join(spec.scratch, LAYERS), os.path.join(spec.scratch, NEW_ROOT), spec.mine):
        fresh(path)


def _opened(spec: EntrySpec, answer: dict[str, Any]) -> Opened:
    return Opened(
        kind="overlay",
        claims=CLAIMS,
        spec=spec,
        places=(spec.scratch,),
        warnings=tuple(_warnings(spec, answer["closed"])),
        write_ratio=write_ratio(answer["write_mb_per_s"], spec.folder),
    )


def _warnings(spec: EntrySpec, closed: list[str]) -> Iterator[str]:
    if closed:
        named = ", ".join(closed[:_MOST_NAMED]) + (f" and {len(closed) - _MOST_NAMED} more" if len(closed) > _MOST_NAMED else "")
        yield f"Where no overlay is possible the script can read, and its writes fail: directly in {named}."
    if spec.memory_bytes is not None:
        yield f"What the script writes is kept in memory, {spec.memory_bytes / 1e9:.1f} GB at most: no disk here can hold it."
