"""What the ways of making a sandbox give back."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from slowstep.prove.sandbox.moved import Moved
from slowstep.prove.sandbox.removal import remove
from slowstep.prove.sandbox.spec import EntrySpec
from slowstep.prove.sandbox.trial import write_speed


class Impossible(Exception):
    """This kind of sandbox is not possible here; the message is the reason, a clause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A sandbox made ready; the fields are those of `Sandbox`. `moved` is None where paths are the same inside."""

    kind: str
    claims: str
    spec: EntrySpec
    places: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    write_ratio: float | None = None
    moved: Moved | None = None
    variables: dict[str, str] = field(default_factory=dict)


def fresh(folder: str) -> None:
    """Make an empty folder that only this user can enter, instead of whatever is there. Raises Impossible."""
    try:
        if os.path.lexists(folder) and not remove(folder):
            raise Impossible(f"{folder} cannot be emptied")
        os.mkdir(folder, 0o700)
    except OSError as error:
        raise Impossible(f"{folder} cannot be made: {error.strerror}") from error


def write_ratio(inside_mb_per_s: float, outside: str) -> float | None:
    """Speed inside by the speed in a folder outside; None where that cannot be written to."""
    try:
        return inside_mb_per_s / write_speed(outside)
    except OSError:
        return None
