"""Where a script was seen to call something, and what that takes, as the training noted it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, kw_only=True, slots=True)
class CallPlace:
    """A call in a file: it ends at `end_line` (from 1) and `end_column` (in bytes of UTF-8, from 0); None where only its line is known.

    `made` is what it made ("loader", "settings"), of `framework`; `names` are those of the classes that it may have been called by.
    `takes` are the names of the parameters in their order, `takes_any` is whether there may be others. `checksum` is that (CRC-32) of the
    file's bytes when it was called. `others` is how many more the same call had made by then.
    """

    made: str
    framework: str
    file: str
    line: int
    checksum: int | None
    names: tuple[str, ...]
    end_line: int | None = None
    end_column: int | None = None
    takes: tuple[str, ...] = ()
    takes_any: bool = False
    others: int = 0


def read_call_place(fields: object) -> CallPlace | None:
    """A place from the fields of a note; None where they are not those of one."""
    try:
        return msgspec.convert(fields, CallPlace)
    except msgspec.ValidationError:
        return None
