"""Reads the Chrome trace of PyTorch's profiler (Kineto), plain or gzip, of one rank."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from slowstep.errors import UnreadableInput
from slowstep.sources._covered import covered_by_trace
from slowstep.sources._filled import clock_of, recorded_kinds
from slowstep.sources._gzip import Unpacked, peek
from slowstep.sources._kineto.co_readers import CoReaderLost, CoReaders, co_readers_here
from slowstep.sources._kineto.columns import Columns
from slowstep.sources._kineto.facts import asked_for, base_of, devices_table, host_of, rank_of, vendor_of
from slowstep.sources._kineto.health import health_rows
from slowstep.sources._kineto.reader import EventReader, metadata
from slowstep.sources._kineto.tables import finished_tables
from slowstep.sources._kineto.text import EVENTS_KEY, MARK, SPACE, nesting_depth
from slowstep.sources._last_steps import left_out
from slowstep.sources._source import PLAIN, HowRead, Source
from slowstep.timeline.coverage import TRACED, UNSEEN, ShownWith
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace import TraceFacts

# Some 4,000 events: enough that what is done once per chunk costs nothing, little enough to stay in the processor's caches.
CHUNK_BYTES = 1 << 20
LEAST_CHUNK_BYTES = 1 << 17
# Decoded events take about ten times their text; the dictionaries and the finished tables take the rest of what is allowed.
_CHUNK_SHARE = 1 / 64
_COLUMNS_SHARE = 1 / 4
# The list of events may stand behind other things; further in than this, a file is not recognised.
_SNIFF_BYTES = 16 << 20
# How Kineto begins a file; a whole object that begins so and holds no events is something else's.
_BEGIN = re.compile(rb'\{\s*"(?:schemaVersion|deviceProperties|distributedInfo)"')
# What leaves a whole file without events: the handler is called at the end of a cycle, and once more where the profiler ends.
_SCHEDULE = (
    "Likely its schedule never came to the active steps, or the file was written when profiling ended between two cycles. Record it again: "
    "train for more than wait + warmup + active steps, and call prof.step() after each."
)
_LIST_OF_EVENTS = re.compile(rb'\[\s*\{[^{}]*"ph"\s*:\s*"')


def sniff(head: bytes, path: Path) -> bool:
    """A JSON object with a list of trace events, or cut off before it, or a plain list of them."""
    text = head.removeprefix(MARK).lstrip(SPACE)
    if text.startswith(b"["):
        return bool(_LIST_OF_EVENTS.match(text))
    if not text.startswith(b"{"):
        return False
    if EVENTS_KEY.search(head):
        return True
    return _has_events(path) or (bool(_BEGIN.match(text)) and _is_cut_off(path))


def _has_events(path: Path) -> bool:
    before = b""
    for block in peek(path, _SNIFF_BYTES):
        if EVENTS_KEY.search(before + block):
            return True
        before = block[-64:]
    return False


def _is_cut_off(path: Path) -> bool:
    text = b"".join(peek(path, _SNIFF_BYTES))
    return len(text) < _SNIFF_BYTES and nesting_depth(text) > 0


def read(path: Path, how: HowRead = PLAIN) -> Timeline:
    """Read one rank's trace. Raises UnreadableInput for what holds no events, or cannot be read at all."""
    try:
        with suppress(CoReaderLost):
            # Several processes take more memory than one.
            return _read(path, how, co_readers_here() if how.memory_bytes is None else 0)
        return _read(path, how, 0)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}.") from error


def _read(path: Path, how: HowRead, most_co_readers: int) -> Timeline:
    with ExitStack() as stack, CoReaders(most_co_readers) as co_readers:
        return _read_into(stack, path, how, co_readers)


def _read_into(stack: ExitStack, path: Path, how: HowRead, co_readers: CoReaders) -> Timeline:
    counts: Counter[str] = Counter()
    limit = how.memory_bytes
    chunk_bytes = CHUNK_BYTES if limit is None else max(LEAST_CHUNK_BYTES, min(CHUNK_BYTES, int(limit * _CHUNK_SHARE)))
    unpacked = Unpacked(path, chunk_bytes)
    reader = EventReader(unpacked, counts, co_readers.hand_over)
    columns = Columns(counts)
    folder: Path | None = None
    for events in reader:
        columns.add(events, co_readers.turn())
        how.progress(unpacked.share)
        if limit is not None and sum(grown.held_bytes for grown in columns.grown) > limit * _COLUMNS_SHARE:
            folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slowstep-")))
            for grown in columns.grown:
                grown.spill(folder)
    co_readers.join(columns, counts)
    return _timeline(path, unpacked, reader, columns, counts, how.most_events)


def _timeline(path: Path, unpacked: Unpacked, reader: EventReader, columns: Columns, counts: Counter[str], most: int | None) -> Timeline:
    rows = sum(grown.rows for grown in columns.grown)
    if not rows:
        raise UnreadableInput(_nothing(path, reader, unpacked, counts))
    _count_damage(counts, unpacked, reader, columns)
    about = metadata(reader.around, counts)
    tables, first_ns, left = finished_tables(columns, counts, most)
    vendor = vendor_of(about, list(columns.names))
    tables["trace_devices"] = devices_table(about, tables["device_events"], vendor)
    recorded = recorded_kinds(tables) | asked_for(about, tables)
    is_kineto = bool(recorded & {"operators", "runtime", "device"}) or "schemaVersion" in about
    counts["not-kineto"] = int(not is_kineto)
    if not is_kineto:
        # Only PyTorch's profiler gives each event a category.
        counts["no-category"] = 0
    rank, world_size = rank_of(about)
    facts = TraceFacts(
        format="Kineto trace" if is_kineto else "Chrome trace",
        files=(str(path),),
        bytes=unpacked.size_bytes,
        events=sum(len(tables[name]) for name in ("host_events", "device_events", "marked_steps", "allocations")),
        recorded=recorded,
        framework="pytorch" if is_kineto else None,
        tells_users_names=is_kineto,
        costs_its_threads=is_kineto,
        schema_version=None if about.get("schemaVersion") is None else str(about["schemaVersion"]),
        rank=rank,
        world_size=world_size,
        host=host_of(about),
        vendor=vendor,
        complete=not counts["truncated"],
        clock_ns=clock_of(tables, first_ns + base_of(about)),
    )
    run = RunFacts(name=path.name, command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    health = (*health_rows(counts, unpacked.damage, sorted(columns.groups.foreign)), *([left_out(left)] if left else []))
    coverage = covered_by_trace(COVERAGE, tables)
    return Timeline(source="kineto", tables=tables, processes=(), run=run, health=health, trace=facts, coverage=coverage)


def _count_damage(counts: Counter[str], unpacked: Unpacked, reader: EventReader, columns: Columns) -> None:
    """Count what the file lacks: its end, or the other half of an event."""
    counts["truncated"] = int(unpacked.is_cut_off or not reader.complete)
    counts["damaged"] = int(unpacked.damage is not None and not counts["truncated"])
    counts["no-length"] += columns.pairs.begins_alone
    counts["ends-alone"] = columns.pairs.ends_alone


def _nothing(path: Path, reader: EventReader, unpacked: Unpacked, counts: Counter[str]) -> str:
    if not unpacked.unpacked_bytes:
        why = f"cannot be unpacked: {unpacked.damage}" if unpacked.damage else "is empty"
    elif not reader.found and reader.complete:
        why = "holds no list of trace events (`traceEvents`)"
    elif unpacked.is_cut_off or not reader.complete:
        why = "was cut off before the first whole event"
    elif unpacked.damage:
        why = f"holds no event that can be read: {unpacked.damage}"
    elif counts["malformed"]:
        are = "is" if counts["malformed"] == 1 else "are"
        why = f"has no event that can be read: {counts['malformed']:,} {are} malformed"
    else:
        return f"{path} has no event with a start and a duration: nothing was profiled. {_SCHEDULE}"
    return f"{path} {why}. Record it again with torch.profiler, and let `export_chrome_trace` finish."


COVERAGE: Final = {
    "steps": TRACED,
    "host": TRACED,
    "functions": replace(TRACED, shown_with=ShownWith.STACKS),
    "batches": UNSEEN,
    "device": TRACED,
    "dispatches": TRACED,
    "allocations": replace(TRACED, shown_with=ShownWith.MEMORY),
    "machine": UNSEEN,
}
SOURCE = Source(
    name="kineto",
    reads="PyTorch's traces (Kineto JSON, also gzipped)",
    sniff=sniff,
    read=read,
    coverage=COVERAGE,
    endings=(".json", ".json.gz"),
)
