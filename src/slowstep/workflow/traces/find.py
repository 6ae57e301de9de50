"""Paths become the trace files of ranks: each file's source is chosen by its content."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slowstep.errors import UnreadableInput
from slowstep.exporters._trace_events import MARK
from slowstep.reason_words import sentence
from slowstep.reasons import SAID, Reason, Wording
from slowstep.registry import discover
from slowstep.sources._gzip import peek
from slowstep.sources._source import Source
from slowstep.units import format_count
from slowstep.workflow.runs import runs_here
from slowstep.workflow.traces.named_paths import EXPECTED, refusal, require

HEAD_BYTES = 4096
# Deeper than profilers write: a TensorBoard folder has three levels.
DEEPEST = 4
# A folder with more files than ranks of any job was not meant.
MOST_FILES = 10_000
RECORDING = "recording"
# Why a file is no trace: each ends a sentence that begins with its name.
EMPTY = Wording("file-empty", "is empty")
UNPACKED_EMPTY = Wording("file-unpacks-to-nothing", "unpacks to nothing: it is empty, or was cut off")
UNKNOWN_FORMAT = Wording("file-of-unknown-format", "is in no format that this version reads")
OWN_EXPORT = Wording("file-of-our-own", "was written by slowstep, for Perfetto: give the trace that it was made from")
DAMAGED_GZIP = Wording(
    "file-damaged-gzip", "is a gzip file whose beginning is damaged, so that nothing of it can be unpacked: copy it again"
)
NO_TRACE_INSIDE = Wording("folder-without-trace", "is a folder without a trace")
GZIP = b"\x1f\x8b"
RANK = re.compile(r"rank[-_ ]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundTrace:
    """A file or folder that a source reads; where it holds several ranks, the process `pid` in it."""

    path: Path
    source: Source
    pid: int | None = None

    @property
    def rank_in_name(self) -> int | None:
        """The rank that the file's name tells: none of several in one file."""
        if self.pid is not None:
            return None
        told = RANK.findall(self.path.name)
        return int(told[-1]) if told else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """What no source reads. `reason` says why where something is missed: it was asked for, or might be a trace; None of any other file."""

    path: Path
    reason: Reason | None = None


def sources() -> dict[str, Source]:
    """All sources, by name."""
    return discover("slowstep.sources", "SOURCE", Source)


def find(paths: Iterable[Path]) -> tuple[list[FoundTrace], list[Skipped]]:
    """What can be read at the paths, folders searched, and what no source knows.

    Raises UnreadableInput for a path that does not exist, or where nothing at all can be read.
    """
    asked = list(paths)
    for path in asked:
        require(path)
    # The same file, by whatever way it is named, is one trace.
    given = list({path.resolve(): path for path in asked}.values())
    found: list[FoundTrace] = []
    skipped: list[Skipped] = []
    for path in given:
        whole = known(path)
        if path.is_dir() and (whole is None or whole.source.name != RECORDING):
            inside, others = _of_folder(path, whole)
            found += inside
            skipped += others
        elif whole is not None:
            found.append(whole)
        else:
            skipped.append(Skipped(path=path, reason=_why_not(path)))
    if not found:
        raise UnreadableInput(_nothing(given, skipped))
    return list({each.path.resolve(): each for each in found}.values()), skipped


def _of_folder(path: Path, whole: FoundTrace | None) -> tuple[list[FoundTrace], list[Skipped]]:
    """What of a folder that is no recording is read: what lies in it, or all of it as the one trace that it is (`whole`)."""
    inside, others = _inside(path)
    runs = runs_here(path)
    if runs and all(set(runs).intersection(each.path.parents) for each in inside):
        # It holds no trace but what belongs to them: the last one is meant.
        last = known(runs[-1])
        return [] if last is None else [last], [each for each in others if not set(runs).intersection(each.path.parents)]
    if whole is not None and all(each.source is whole.source for each in inside):
        # A log folder is read as its source knows it, unless other traces lie in it too.
        return [whole], []
    return inside, others if inside else [*others, Skipped(path=path, reason=NO_TRACE_INSIDE())]


def each_process(found: Iterable[FoundTrace]) -> list[FoundTrace]:
    """The traces, those that hold several ranks once for each of them."""
    return [replace(each, pid=pid) for each in found for pid in (each.source.processes(each.path) or (None,))]


def _inside(folder: Path) -> tuple[list[FoundTrace], list[Skipped]]:
    found, closed = list[FoundTrace](), list[Skipped]()

    def refused(error: OSError) -> None:
        closed.append(Skipped(path=Path(error.filename), reason=SAID(said=refusal(error))))

    files = list(_files(folder, refused))
    others = list[Skipped]()
    for file in files:
        one = _known_inside(file)
        found.append(one) if isinstance(one, FoundTrace) else others.append(one)
    return found, [*closed, *others]


def _known_inside(file: Path) -> FoundTrace | Skipped:
    """What lies in a folder unasked and cannot be opened leaves the rest readable. Reading from a pipe would wait for ever."""
    try:
        if not file.is_file():
            return Skipped(path=file)
        one = _known(file)
    except OSError as error:
        return Skipped(path=file, reason=SAID(said=refusal(error)))
    if one is None:
        head = _head(file)
        is_missed = file.name.lower().endswith(_endings()) and (not head or head.startswith(GZIP))
        return Skipped(path=file, reason=_why_not(file) if is_missed else None)
    return one


def known(path: Path) -> FoundTrace | None:
    """The source that reads a file or folder; None where none does. Raises UnreadableInput where it cannot be opened."""
    if not path.is_dir() and not path.is_file():
        raise UnreadableInput(f"{path} is neither a file nor a folder. {EXPECTED}")
    try:
        return _known(path)
    except OSError as error:
        raise UnreadableInput(f"{path} {refusal(error)}.") from error


def _known(path: Path) -> FoundTrace | None:
    head = _head(path)
    if head.startswith(MARK):
        return None
    source = next((source for source in sources().values() if source.sniff(head, path)), None)
    return None if source is None else FoundTrace(path=path, source=source)


def _files(folder: Path, refused: Callable[[OSError], None]) -> Iterator[Path]:
    count = 0
    for root, folders, names in os.walk(folder, onerror=refused):
        if len(Path(root).relative_to(folder).parts) >= DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            count += 1
            if count > MOST_FILES:
                raise UnreadableInput(f"{folder} holds more than {MOST_FILES:,} files. Give the folder of the traces alone.")
            if not name.startswith("."):
                yield Path(root) / name


def _head(path: Path) -> bytes:
    """The first bytes of a file, unpacked where that can be done; none of a folder."""
    if path.is_dir():
        return b""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(GZIP):
        try:
            return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            # What comes before the damage may tell what it is.
            return next(peek(path, HEAD_BYTES), head)[:HEAD_BYTES]
    return head


def _nothing(given: list[Path], skipped: list[Skipped]) -> str:
    path = given[0]
    if len(given) == 1 and path.is_dir():
        others = [each for each in skipped if each.path != path]
        missed = "".join(f" {each.path.name} {sentence(each.reason)}." for each in others if each.reason is not None)
        return (
            f"{path} holds no recording (there is no launcher.jsonl and no .rec file in it) and no trace that this version reads "
            f"({format_count(len(others), 'other file') if others else 'it is empty'}).{missed}"
        )
    first = next((each for each in skipped if each.reason is not None and each.reason.of(EMPTY)), skipped[0])
    reason = first.reason or UNKNOWN_FORMAT()
    return f"{first.path} {sentence(reason)}.{_formats() if reason.of(UNKNOWN_FORMAT) else ''}"


def _endings() -> tuple[str, ...]:
    """Of the names of traces. An empty file of another name is no lost trace."""
    return tuple(ending for source in sources().values() for ending in source.endings)


def _formats() -> str:
    # What slowstep makes itself comes first.
    *others, last = (source.reads for source in sorted(sources().values(), key=lambda source: source.name != RECORDING))
    return f" It reads {', '.join(others)}, and {last}."


def _why_not(path: Path) -> Reason:
    """Why a file is no trace, as the end of a sentence that begins with its name."""
    head = _head(path)
    if head.startswith(MARK):
        return OWN_EXPORT()
    if head.startswith(GZIP):
        return DAMAGED_GZIP()
    if head:
        return UNKNOWN_FORMAT()
    return EMPTY() if path.stat().st_size == 0 else UNPACKED_EMPTY()
