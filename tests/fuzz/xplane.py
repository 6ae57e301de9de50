"""XPlane files: fields of their messages changed, what they refer to taken away, and their bytes damaged as protobuf would be."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz.case import Target
from fuzz.odd import INT64, cut, scribbled, shown
from made_xplanes import gpu, host, made_xplane
from slowstep.sources._xplane.schema import MESSAGES, message_class

REAL = sorted((Path(__file__).parents[1] / "data/xplane").glob("*/trace.xplane.pb"))
MOST_EVENTS = 60  # of each line: an XPlane of these is diagnosed in a third of a second
TEXTS = (b"", b"\xff\xfe", b"\xed\xa0\x80", b"a\x00b", b"[1, 2]", b"12", b"-1", b"1e999", b"x" * 5000, "\u202eevil".encode(), b"step_num")
NAMES = (b"python", b"Steps", b"XLA Ops", b"Stream #1", b"/device:GPU:0", b"/device:GPU:99999999999999999999", b"/host:CPU", b"")
DOUBLES = (0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e308)
_BYTES, _DOUBLE, _UINT64 = 12, 1, 4


@dataclass
class Document:
    """The message, and what is done to the file's bytes."""

    space: Any
    late: list[Callable[[bytes], bytes]] = field(default_factory=list)


@cache
def _shortened(path: Path) -> bytes:
    space = message_class("XSpace").FromString(path.read_bytes())
    for plane in space.planes:
        for line in plane.lines:
            del line.events[MOST_EVENTS:]
        used = {event.metadata_id for line in plane.lines for event in line.events}
        kept = [entry for entry in plane.event_metadata if entry.key in used]
        del plane.event_metadata[:]
        plane.event_metadata.extend(kept)
    return bytes(space.SerializeToString())


@cache
def _made() -> bytes:
    """A training of six steps on one GPU."""
    hosts, devices = [], []
    for step in range(6):
        at = step * 1000.0
        hosts += [
            ("train", at, at + 950, {"step_num": step, "_r": 1, "group_id": step}),
            ("IteratorGetNextOp::DoCompute", at + 10, at + 300, {"iter_num": step}),
            ("PyFunc:PyFunc", at + 20, at + 250),
            ("PjitFunction(train_step)", at + 310, at + 400),
            ("cuLaunchKernel", at + 320, at + 330, {"correlation_id": step + 1}),
            ("TransferToDevice", at + 410, at + 500, {"bytes": 4096}),
        ]
        devices += [
            (
                "fusion.1",
                at + 350,
                at + 700,
                {"correlation_id": step + 1, "hlo_op": "fusion.1", "hlo_module": b"jit_train", "program_id": 7},
            ),
            ("MemcpyH2D", at + 720, at + 800, {"memcpy_details": b"kind_src:pageable kind_dst:device size:4096 dest:0 async:1"}),
            ("ncclDevKernel_AllReduce", at + 810, at + 900, {"correlation_id": step + 100}),
        ]
    facts = {"device_vendor": b"Nvidia", "compute_cap_major": 8, "core_count": 108}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.xplane.pb"
        return made_xplane(path, host(hosts), gpu(devices, facts=facts), hosts=["node1"]).read_bytes()


def _opened(load: Callable[[], bytes]) -> Document:
    return Document(message_class("XSpace").FromString(load()))


def _messages(message: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The message and all that it holds, with the names of their types."""
    yield name, message
    for key, (_, kind, repeated) in MESSAGES[name].items():
        if isinstance(kind, str):
            for inner in getattr(message, key) if repeated else (getattr(message, key),):
                yield from _messages(inner, kind)


def _any(document: Document, rng: random.Random) -> tuple[str, Any]:
    """A message: of each type as likely as of another, however many there are."""
    by_type: dict[str, list[Any]] = {}
    for name, message in _messages(document.space, "XSpace"):
        by_type.setdefault(name, []).append(message)
    name = rng.choice(sorted(by_type))
    return name, rng.choice(by_type[name])


def _scalar(kind: int, before: Any, rng: random.Random) -> Any:
    if kind == _BYTES:
        return rng.choice((*TEXTS, *NAMES, before[: len(before) // 2], before + before))
    if kind == _DOUBLE:
        return rng.choice(DOUBLES)
    value = rng.choice((*INT64, before + 1, before - 1, before * 1000))
    return value % 2**64 if kind == _UINT64 else min(max(value, -(2**63)), 2**63 - 1)


def _value(document: Document, rng: random.Random) -> str | None:
    name, message = _any(document, rng)
    scalars = sorted(key for key, (_, kind, repeated) in MESSAGES[name].items() if not isinstance(kind, str) and not repeated)
    if not scalars:
        return None
    key = rng.choice(scalars)
    kind, before = MESSAGES[name][key][1], getattr(message, key)
    assert isinstance(kind, int)
    setattr(message, key, _scalar(kind, before, rng))
    return f"{name}.{key}: {shown(before)} -> {shown(getattr(message, key))}"


def _everywhere(document: Document, rng: random.Random) -> str | None:
    name, message = _any(document, rng)
    scalars = sorted(key for key, (_, kind, repeated) in MESSAGES[name].items() if not isinstance(kind, str) and not repeated)
    if not scalars:
        return None
    key = rng.choice(scalars)
    kind = MESSAGES[name][key][1]
    assert isinstance(kind, int)
    value = _scalar(kind, getattr(message, key), rng)
    for other, each in _messages(document.space, "XSpace"):
        if other == name:
            setattr(each, key, value)
    return f"all {name}.{key} -> {shown(value)}"


def _missing(document: Document, rng: random.Random) -> str | None:
    name, message = _any(document, rng)
    key = rng.choice(sorted(MESSAGES[name]))
    message.ClearField(key)
    return f"{name} without {key}"


def _lists(document: Document, rng: random.Random) -> tuple[str, Any] | None:
    name, message = _any(document, rng)
    keys = sorted(key for key, (_, kind, repeated) in MESSAGES[name].items() if repeated and isinstance(kind, str))
    key = rng.choice(keys) if keys else None
    return (f"{name}.{key}", getattr(message, key)) if key else None


def _fewer(document: Document, rng: random.Random) -> str | None:
    if (found := _lists(document, rng)) is None:
        return None
    words, entries = found
    kept = [entry for entry in entries if rng.random() < rng.choice((0.0, 0.5, 0.9))]
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in kept]
    before = len(entries)
    del entries[:]
    entries.extend(copies)
    return f"{len(copies)} of {before} {words}"


def _more(document: Document, rng: random.Random) -> str | None:
    if (found := _lists(document, rng)) is None or not found[1]:
        return None
    words, entries = found
    chosen = rng.choice(list(entries))
    copies = [type(chosen).FromString(chosen.SerializeToString()) for _ in range(rng.choice((1, 2, 50)))]
    entries.extend(copies)
    return f"{len(copies)} more {words}"


def _shuffled(document: Document, rng: random.Random) -> str | None:
    if (found := _lists(document, rng)) is None:
        return None
    words, entries = found
    copies = [type(entry).FromString(entry.SerializeToString()) for entry in entries]
    rng.shuffle(copies)
    del entries[:]
    entries.extend(copies)
    return f"{words} in another order"


def _absent(document: Document, rng: random.Random) -> str | None:
    """What events and facts are called: some of the names are not there."""
    if not document.space.planes:
        return None
    plane = rng.choice(list(document.space.planes))
    entries = rng.choice((plane.event_metadata, plane.stat_metadata))
    share = rng.choice((0.5, 1.0))
    for entry in entries:
        if rng.random() < share:
            # Also where another change has made it as large as may be.
            entry.key ^= 1 << 40
    return f"{share:.0%} of the names of {shown(plane.name)} have other numbers"


def _times(document: Document, rng: random.Random) -> str | None:
    lines = [line for plane in document.space.planes for line in plane.lines if line.events]
    if not lines:
        return None
    line, how = rng.choice(lines), rng.choice(("no length", "alike", "backwards", "far", "negative", "huge"))
    for event in line.events:
        if how == "no length":
            event.duration_ps = 0
        elif how == "alike":
            event.offset_ps, event.duration_ps = line.events[0].offset_ps, line.events[0].duration_ps
        elif how in ("backwards", "negative"):
            event.offset_ps, event.duration_ps = -event.offset_ps, event.duration_ps * (-1 if how == "negative" else 1)
        else:
            event.duration_ps = 2**62 if how == "huge" else event.duration_ps
    line.timestamp_ns += 10**17 if how == "far" else 0
    return f"times of {shown(line.name)}: {how}"


def _renamed(document: Document, rng: random.Random) -> str | None:
    named = [each for kind, each in _messages(document.space, "XSpace") if kind in ("XPlane", "XLine", "XEventMetadata", "XStatMetadata")]
    if not named:
        return None
    chosen, other = rng.choice(named), rng.choice(named)
    before, chosen.name = chosen.name, rng.choice((*NAMES, other.name))
    return f"{shown(before)} is called {shown(chosen.name)}"


def _varint(value: int) -> bytes:
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes((*groups, value))


def _wire(raw: bytes, rng: random.Random) -> bytes:
    """Something put in that protobuf would not write: varints too long, groups, lengths beyond the end, unknown fields."""
    tag = rng.choice((1, 2, 3, 4, 5, 6, 15, 16, 2047, 2**28)) << 3 | rng.randrange(8)
    pieces = (
        *(b"\xff" * rng.choice((9, 10, 11, 30)), b"\x80" * 5 + b"\x00", _varint(tag), _varint(tag) + _varint(2**63 + 5)),
        *(
            _varint(tag & ~7 | 2) + _varint(rng.choice((0, 1, 5, 100, 2**31, 2**64 - 1))),
            b"\x0b\x0c",
            b"\x00",
            _varint(tag) + rng.randbytes(12),
        ),
    )
    at = rng.choice((0, len(raw), rng.randrange(len(raw) + 1)))
    return raw[:at] + rng.choice(pieces) + raw[at:]


def _late(change: Callable[[bytes, random.Random], bytes], words: str, document: Document, rng: random.Random) -> str | None:
    seed = rng.randrange(2**32)
    document.late.append(lambda raw: change(raw, random.Random(seed)))
    return words


def _write(document: Document, folder: Path) -> Path:
    raw = document.space.SerializeToString()
    for change in document.late:
        raw = change(raw)
    path = folder / "trace.xplane.pb"
    path.write_bytes(raw)
    return path


TARGET = Target(
    name="xplane",
    bases={"made": partial(_opened, _made)} | {path.parent.name: partial(_opened, partial(_shortened, path)) for path in REAL},
    changes={
        "value": _value,
        "value-too": _value,
        "everywhere": _everywhere,
        "missing": _missing,
        "fewer": _fewer,
        "more": _more,
        "shuffled": _shuffled,
        "absent": _absent,
        "times": _times,
        "renamed": _renamed,
        "wire": partial(_late, _wire, "no such protobuf"),
        "scribbled": partial(_late, scribbled, "bytes replaced"),
        "cut": partial(_late, cut, "cut off"),
    },
    write=_write,
)
