"""Paths become the trace files of ranks: each file's source is chosen by its content."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slowstep.errors import UnreadableInput
from slowstep.exporters.chrome import MARK
from slowstep.registry import discover
from slowstep.sources._source import Source

HEAD_BYTES = 4096
# Deeper than profilers write: a TensorBoard folder has three levels.
DEEPEST = 4
# A folder with more files than ranks of any job was not meant.
MOST_FILES = 10_000
RECORDING = "recording"
GZIP = b"\x1f\x8b"
EXPECTED = "Give the folder that `slowstep run` made (slowstep_runs/<time>-<script>), a profiler's trace, or a folder of traces."
RANK = re.compile(r"rank[-_ ]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A file or folder that a source reads."""

    path: Path
    source: Source

    @property
    def rank_in_name(self) -> int | None:
        """The rank that the file's name tells."""
        told = RANK.findall(self.path.name)
        return int(told[-1]) if told else None


def sources() -> dict[str, Source]:
    """All sources, by name."""
    found = discover("slowstep.sources", "SOURCE")
    return {source.name: source for source in found.values() if isinstance(source, Source)}


def find(paths: Iterable[Path]) -> tuple[list[Found], list[Path]]:
    """What can be read at the paths, folders searched, and the files that no source knows.

    Raises UnreadableInput for a path that does not exist, or where nothing at all can be read.
    """
    # The same file, by whatever way it is named, is one trace.
    given = list({path.resolve(): path for path in paths}.values())
    found: list[Found] = []
    unknown: list[Path] = []
    for path in given:
        if not path.exists():
            raise UnreadableInput(f"{path} does not exist. {EXPECTED}")
        whole = known(path)
        if not path.is_dir() or (whole is not None and whole.source.name == RECORDING):
            found.append(whole) if whole is not None else unknown.append(path)
            continue
        inside, others = _inside(path)
        # A log folder is read as its source knows it, unless other traces lie in it too.
        alone = whole is not None and all(each.source is whole.source for each in inside)
        found += [whole] if whole is not None and alone else inside
        unknown += [] if alone else others
    if not found:
        raise UnreadableInput(_nothing(given, unknown))
    return list({each.path.resolve(): each for each in found}.values()), unknown


def _inside(folder: Path) -> tuple[list[Found], list[Path]]:
    found, others = list[Found](), list[Path]()
    for file in _files(folder):
        # What lies there unasked and cannot be opened leaves the rest readable. Reading from a pipe would wait for ever.
        try:
            one = known(file) if file.is_file() else None
        except UnreadableInput:
            one = None
        found.append(one) if one is not None else others.append(file)
    return found, others


def known(path: Path) -> Found | None:
    """The source that reads a file or folder; None where none does. Raises UnreadableInput where it cannot be opened."""
    head = _head(path)
    if head.startswith(MARK):
        return None
    source = next((source for source in sources().values() if source.sniff(head, path)), None)
    return None if source is None else Found(path=path, source=source)


def _files(folder: Path) -> Iterator[Path]:
    count = 0
    for root, folders, names in os.walk(folder):
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
    if path.is_dir():
        return b""
    if not path.is_file():
        raise UnreadableInput(f"{path} is neither a file nor a folder. {EXPECTED}")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}.") from error
    if head.startswith(GZIP):
        try:
            return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return head
    return head


def _nothing(given: list[Path], unknown: list[Path]) -> str:
    path = given[0]
    if len(given) == 1 and path.is_dir():
        inside = _recordings_in(path)
        hint = f" It holds {len(inside)} recording{'s' * (len(inside) > 1)}: slowstep analyze {inside[-1]}" if inside else ""
        return (
            f"{path} holds no recording (there is no launcher.jsonl and no .rec file in it) and no trace that this version reads "
            f"({len(unknown)} other files).{hint}"
        )
    empty = [path for path in unknown if path.is_file() and path.stat().st_size == 0]
    if empty:
        return f"{empty[0]} is empty."
    if _head(unknown[0]).startswith(MARK):
        return f"{unknown[0]} was written by slowstep, for Perfetto: give the trace that it was made from."
    return (
        f"{unknown[0]} is in no format that this version reads. It reads folders that `slowstep run` made, PyTorch's traces (Kineto JSON, "
        "also gzipped), SQLite exports of Nsight Systems, and XPlane files (.xplane.pb)."
    )


def _recordings_in(folder: Path) -> list[Path]:
    """The recordings right below a folder, by name; what must not be looked into is none."""
    recordings = [source for source in sources().values() if source.name == RECORDING]

    def is_one(child: Path) -> bool:
        try:
            return any(source.sniff(b"", child) for source in recordings)
        except OSError:
            return False

    try:
        return sorted(filter(is_one, folder.iterdir()))
    except OSError:
        return []
