"""What a source is: it recognises its own format by content, and reads it into a Timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slowstep.timeline.coverage import KindCoverage
    from slowstep.timeline.timeline import Timeline


def _silent(share: float) -> None:
    """Show no progress."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HowRead:
    """How something is to be read: in at most `memory_bytes` (None: as the source pleases), telling `progress` the share done, 0 to 1.

    Of a trace with more than `most_events` events (None: any number) only the last steps are wanted. Of a file that holds several processes
    only the one with the id `pid` is read (None: that which ran most); other formats do not look at it.
    """

    memory_bytes: int | None = None
    most_events: int | None = None
    pid: int | None = None
    progress: Callable[[float], None] = _silent


PLAIN: Final = HowRead()


def _one(path: Path) -> Sequence[int]:
    """Of a format whose files hold one process each."""
    return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One format, of one recording or of one rank's trace.

    `sniff(head, path)` sees the first bytes, unpacked where they are gzip (none of a folder); `read(path, how)` raises UnreadableInput
    for what it cannot make anything of, and reads what it can of anything else. `processes(path)` has the ids of the processes that are
    ranks, where a file holds several; it is empty where there is one at most, or the file cannot be read.
    """

    name: str
    reads: str  # what it reads, in the plural, as the end of "slowstep reads ..."
    sniff: Callable[[bytes, Path], bool]
    read: Callable[[Path, HowRead], Timeline]
    coverage: Mapping[str, KindCoverage]  # of each of KINDS, what it can see at most; a timeline states what it has
    processes: Callable[[Path], Sequence[int]] = _one
    endings: tuple[str, ...] = ()  # of the names that profilers give: an empty file of such a name is a lost trace
