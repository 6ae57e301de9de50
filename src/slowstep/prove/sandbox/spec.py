"""What a sandbox tells the process that enters it, as a file in the scratch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

# With a user namespace, or as root without: then directories of lower layers can be renamed as well.
ROOT: Final = "redirect_dir=on"
USER: Final = "userxattr"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySpec:
    """How to enter: `kind` overlay, copy or none; paths are absolute. `folder` is the recording's, `scratch` what is discarded.

    `mine` is the folder in the scratch that is seen, in an overlay, in its place. `memory_bytes` keeps the layers in memory, so many bytes
    of them. `writable` are the folders that a copy may write to where the kernel can hold back all other writes; None where it cannot.
    """

    kind: str
    folder: str
    scratch: str
    mine: str
    cwd: str
    new_user: bool = False
    options: str = USER
    memory_bytes: int | None = None
    writable: tuple[str, ...] | None = None

    def dumps(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


def loads(text: str) -> EntrySpec:
    """A Spec from its JSON."""
    fields = json.loads(text)
    writable = fields.pop("writable")
    return EntrySpec(**fields, writable=None if writable is None else tuple(writable))
