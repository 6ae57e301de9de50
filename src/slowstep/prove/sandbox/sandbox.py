"""Where the experiment runs: the user's script, unmodified, on files that are discarded afterwards.

An *overlay* holds back all writes, wherever they go: a mount namespace of the script's own, with an overlay over every writable folder of
the machine. A *copy* of the working folder stands in where that is not possible; writes elsewhere are refused by the kernel where it has
Landlock, and not held back where it has not. Only what is shown to hold by a trial is used. Limits of an overlay: a file that is open
already for reading does not show what is written to it later through another descriptor, and a large file that is opened for writing is
copied whole to the scratch first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from slowstep.errors import NoSandbox
from slowstep.prove.sandbox.copied import open_copy
from slowstep.prove.sandbox.helper import helper
from slowstep.prove.sandbox.mounts import is_within
from slowstep.prove.sandbox.opened import Impossible, Opened, fresh
from slowstep.prove.sandbox.overlaid import SCRATCH, open_overlay
from slowstep.prove.sandbox.removal import remove
from slowstep.prove.sandbox.room import Room
from slowstep.prove.sandbox.spec import EntrySpec
from slowstep.record.launching.command import Command
from slowstep.record.writing.format import ENV_UNPROTECTED


def open_unprotected(folder: str, cwd: str) -> Opened:
    """Only what slowstep itself writes is discarded. Raises Impossible where not even that can be made."""
    scratch = os.path.join(folder, SCRATCH)
    fresh(scratch)
    return Opened(
        kind="none",
        claims=f"files in {cwd} and elsewhere may have been changed, as --allow-writes allows",
        spec=EntrySpec(kind="none", folder=folder, scratch=scratch, mine=scratch, cwd=cwd),
        places=(scratch,),
        variables={ENV_UNPROTECTED: "1"},
    )


OTHER_EFFECTS: Final = "Apart from files, what the script does is as always: it may use the network, databases, queues and accelerators."
# Trackers that would send something, and what stops them. Who has switched W&B off wants it off.
_WANDB: Final = "WANDB_MODE"
_WANDB_HARMLESS: Final = frozenset(("offline", "disabled", "dryrun"))


class Sandbox:
    """An opened sandbox. `claims` is what may be said of the user's files; `warnings` what must be said beside it.

    `write_ratio` is how fast files are written inside, compared to outside (MB/s by MB/s); None where it was not measured. `room` watches
    over the disk. `places` are the folders that `close` removes.
    """

    def __init__(self, opened: Opened, *, room_bytes: int | None = None) -> None:
        self.kind, self.claims = opened.kind, opened.claims
        self.warnings: tuple[str, ...] = (*opened.warnings, OTHER_EFFECTS)
        self.write_ratio = opened.write_ratio
        self.places = opened.places
        # What the script prints goes into the recording.
        elsewhere = (place for place in opened.places if not is_within(place, opened.spec.folder))
        self.room = Room((opened.spec.folder, *elsewhere), limit_bytes=room_bytes)
        self._opened = opened
        self._spec_file = os.path.join(opened.spec.scratch, "spec.json")
        with open(self._spec_file, "w", encoding="utf-8") as file:
            file.write(opened.spec.dumps())

    def wrap(self, command: Command, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str], str]:
        """What to start instead of a command: its words, its environment, its folder. It becomes the command, with the same process number;
        it needs a descriptor to tell why not (`_sandbox/inside.py`)."""
        moved = self._opened.moved
        path, argv, environment = command.path, list(command.argv), dict(environ)
        if moved is not None:
            path, argv = moved.word(path), [argv[0], *map(moved.word, argv[1:])]
            environment = moved.variables(environment)
        environment |= self._opened.variables | _harmless(environment, self._opened.spec.scratch)
        words = helper("slowstep.prove.sandbox.inside", self._spec_file, "--", path, *argv)
        return list(words), environment, self._opened.spec.cwd

    def close(self) -> tuple[str, ...]:
        """Remove the scratch, when nothing runs in it any more; can be called again. Returns the places that could not be removed."""
        return tuple(place for place in self.places if not remove(place))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def open_sandbox(folder: Path, cwd: Path, *, allow_writes: bool, kind: str | None = None, room_bytes: int | None = None) -> Sandbox:
    """The best sandbox that is possible here, or of a `kind`: overlay, copy, none. `folder` is the recording's, the only one that is
    written to; `cwd` is where the script runs. `room_bytes` limits what it may write.

    Without a sandbox it runs only with `allow_writes`. Raises NoSandbox where that would be needed.
    """
    recording, working = os.path.abspath(folder), os.path.abspath(cwd)
    attempts = {"overlay": open_overlay, "copy": open_copy} | ({"none": open_unprotected} if allow_writes else {})
    reasons = []
    for name in attempts if kind is None else attempts.keys() & {kind}:
        try:
            return Sandbox(attempts[name](recording, working), room_bytes=room_bytes)
        except Impossible as reason:
            reasons.append(f"{name}: {reason}")
    why = "; ".join(reasons) or "no sandbox was asked for"
    refused = f"The script cannot be kept from changing your files here ({why}), so it was not started. "
    if kind in ("overlay", "copy"):
        # It was asked for by name: whether another kind is possible was not tried.
        raise NoSandbox(f"{refused}Only --sandbox {kind} was allowed: leave that out, and the best kind that is possible here is taken.")
    raise NoSandbox(
        f"{refused}With --allow-writes it runs in {working} itself: it overwrites and deletes what a run of it does (checkpoints, logs, "
        "databases), and is killed in the middle, so that a file may be left half written. Do that with files that you have elsewhere."
    )


def _harmless(environ: Mapping[str, str], scratch: str) -> dict[str, str]:
    wandb = {} if environ.get(_WANDB) in _WANDB_HARMLESS else {_WANDB: "offline"}
    return {"HF_HUB_OFFLINE": "1", "MLFLOW_TRACKING_URI": f"file://{scratch}/mlruns", **wandb}
