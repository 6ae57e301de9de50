"""A path becomes a Timeline: the source is chosen by content, never by name."""

from __future__ import annotations

from pathlib import Path

from slowstep.errors import UnreadableInput
from slowstep.registry import discover
from slowstep.sources._source import PLAIN, Source
from slowstep.timeline.timeline import Timeline

HEAD_BYTES = 4096


def load(path: Path) -> Timeline:
    """Read a recording (a folder that `slowstep run` made). Raises UnreadableInput where there is none, or nothing that can be read."""
    if not path.exists():
        raise UnreadableInput(f"{path} does not exist. Give the folder that `slowstep run` made: slowstep_runs/<time>-<script>.")
    head = _head(path)
    for source in sources().values():
        if source.sniff(head, path):
            return source.read(path, PLAIN)
    raise UnreadableInput(_unknown(path))


def sources() -> dict[str, Source]:
    """All sources, by name."""
    found = discover("slowstep.sources", "SOURCE")
    return {source.name: source for source in found.values() if isinstance(source, Source)}


def _head(path: Path) -> bytes:
    if path.is_dir():
        return b""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}.") from error


def _unknown(path: Path) -> str:
    if path.is_dir():
        inside = sorted(child.name for child in path.iterdir() if child.is_dir())[-1:] if path.name == "slowstep_runs" else []
        hint = f" It holds recordings: slowstep analyze {path / inside[0]}" if inside else ""
        return f"{path} holds no recording: there is no launcher.jsonl and no .rec file in it.{hint}"
    if path.stat().st_size == 0:
        return f"{path} is empty."
    return f"{path} is in no format that this version reads. It reads folders that `slowstep run` made."
